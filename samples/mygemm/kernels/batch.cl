/* For --batch, before the file of a kernel: N products of one size in one launch.
 *
 *     A  +------+------+------+--        The matrices A of two products are STRIDE_A bytes apart. The
 *        |  0   |  1   |  2   | ...      same holds for B, C, and other buffers of a kernel: panels,
 *        +------+------+------+--        or parts of sums.
 *        <------>
 *        STRIDE_A                        NDRange: dimension 2 goes over the products.
 *
 * A kernel calls OF_BATCH(A) before it uses A, and so on; after that it accesses one product, whose
 * number is that of its work-group. Without --batch this file is omitted, and OF_BATCH does nothing.
 * A work-group that computes several products, as in 12_in_place.cl, finds them by PRODUCT. */

#define PRODUCT(n, matrix) (matrix + (n) * (STRIDE_##matrix / sizeof(*matrix)))
#define OF_BATCH(matrix) matrix = PRODUCT(get_group_id(2), matrix)
