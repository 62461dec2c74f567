/* For --batch, before the file of a kernel: N products of one size in one launch.
 *
 *     A  +------+------+------+--        The matrices of a product follow those of the one before,
 *        |  0   |  1   |  2   | ...      STRIDE_A bytes further on; those of B and C do, and what
 *        +------+------+------+--        a kernel has beside them: panels, or parts of sums.
 *        <------>
 *        STRIDE_A                        NDRange: dimension 2 goes over the products.
 *
 * A kernel says OF_BATCH(A) before it uses A, and so on: from then on it sees one product. Without
 * --batch this file is not there, and OF_BATCH does nothing. */

#define OF_BATCH(matrix) matrix += get_group_id(2) * (STRIDE_##matrix / sizeof(*matrix))
