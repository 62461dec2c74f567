/* Overwrites a buffer: with --caches flushed, between timed launches. Each element is read and
 * written, so that all of it goes through the caches.
 *
 * NDRange: one dimension, a work-item per uint4.
 */
kernel void flush(global uint4 *cells)
{
    cells[get_global_id(0)] += 1;
}
