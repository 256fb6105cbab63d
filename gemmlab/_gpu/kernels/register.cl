// register: no local memory. Each work-item computes a TILE_Y x TILE_X tile of C. For every LENGTH steps of k, it loads
// the elements of A and B that it needs into registers and multiplies them there.
//
//     each TILE_Y x TILE_X tile of C:
//         for p0 in 0..k by LENGTH:
//             a = A[i0:i0+TILE_Y, p0:p0+LENGTH], b = B[p0:p0+LENGTH, j0:j0+TILE_X]
//             for p, y, x:                          c[y,x] += a[y,p] b[p,x]
//         C[i0:i0+TILE_Y, j0:j0+TILE_X] = c
//
// Source: the Chinese oneAPI report and the Chinese GPU lab report.
//
// Traffic: (TILE_Y + TILE_X) / (TILE_Y TILE_X) elements per multiply-add, where private reads two.
// Registers: TILE_Y TILE_X for c, and LENGTH (TILE_Y + TILE_X) for a and b.
//
// At the lower and right edges a work-item reads the last row or column again and does not store the results.

__kernel GROUP void gemm(OPERANDS)
{
    THIS_PRODUCT;
    const int i0 = get_global_id(1) * TILE_Y, j0 = get_global_id(0) * TILE_X;
    if (i0 >= m || j0 >= n)
        return;
    real a[TILE_Y][LENGTH], b[LENGTH][TILE_X], c[TILE_Y][TILE_X];
    #pragma unroll
    for (int y = 0; y < TILE_Y; y++)
        #pragma unroll
        for (int x = 0; x < TILE_X; x++)
            c[y][x] = 0;
    for (int p0 = 0; p0 < k; p0 += LENGTH) {
        #pragma unroll
        for (int y = 0; y < TILE_Y; y++)
            #pragma unroll
            for (int p = 0; p < LENGTH; p++)
                a[y][p] = p0 + p < k ? A[min(i0 + y, m - 1) * lda + p0 + p] : 0;
        #pragma unroll
        for (int p = 0; p < LENGTH; p++)
            #pragma unroll
            for (int x = 0; x < TILE_X; x++)
                b[p][x] = p0 + p < k ? B[(p0 + p) * ldb + min(j0 + x, n - 1)] : 0;
        #pragma unroll
        for (int p = 0; p < LENGTH; p++)
            #pragma unroll
            for (int y = 0; y < TILE_Y; y++)
                #pragma unroll
                for (int x = 0; x < TILE_X; x++)
                    c[y][x] += a[y][p] * b[p][x];
    }
    #pragma unroll
    for (int y = 0; y < TILE_Y; y++)
        #pragma unroll
        for (int x = 0; x < TILE_X; x++)
            if (i0 + y < m && j0 + x < n)
                C[(i0 + y) * ldc + j0 + x] = c[y][x];
}
