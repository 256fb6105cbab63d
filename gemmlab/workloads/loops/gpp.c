/* The loops of the self-energy. A function adds all terms of one band n, or of one row p, to `sums`:

       sums[w], w < nend              ach, the Coulomb hole
       sums[nend + w]                 asx, the screened exchange of the occupied bands
       sums[2 nend]                   achs, the static remainder

   Rows have separate sums, which are added in order afterwards: results do not depend on the threads.

       ngpw, npgw, pgnw     the loops as they are written in the sources, in three orders
       hoisted              n, p, g, w: what does not depend on g is outside of its loop; no complex division
       blocked              n, p, blocks of g, w, g: the order of the Fortran original, whose inner loop is a vector's
       row_of_product       p, blocks of g, w, g: the sum over n is a product of matrices that is already there

   `hoisted` and `blocked` take complex numbers, or planes of real and of imaginary parts. */
#include <complex.h>
#include <math.h>

#include "tables.h"

#define FUNCTION static inline __attribute__((always_inline))
#include "weights.h"

#define COLUMNS 256  /* of a block: its planes are 12 KiB, so that they stay in L1 for all frequencies */

typedef double _Complex number;

/* One term as it is written: every factor is loaded, multiplied and divided where it stands. */
FUNCTION void term(const gpp_problem *x, ptrdiff_t n, ptrdiff_t p, ptrdiff_t g, ptrdiff_t w, number *sums) {
    const number wt = ((const number *)x->wt)[p * x->ncouls + g], eps = ((const number *)x->eps)[p * x->ncouls + g];
    const double wx = x->wx[n * x->wx_step + w], v = x->vcoul[x->column[p]];
    const number bands = conj(((const number *)x->aqsm)[n * x->ncouls + x->column[p]])
                         * ((const number *)x->aqsn)[n * x->ncouls + g];
    const number wdiff = wx - wt, delw = wt / wdiff, Omega2 = wt * wt * eps;
    const double far = creal(wdiff * conj(wdiff)), ratio = creal(delw * conj(delw));
    number sch = 0, ssx = 0;
    if (far > NEAREST_POLE && ratio < LARGEST_RATIO) {
        sch = delw * eps;
        ssx = Omega2 / (wx * wx - wt * wt);
    } else if (far > 0.0 && ratio > SMALLEST_RATIO) {
        ssx = -Omega2 * delw / (4.0 * wt * wt * (delw + 0.5));
    }
    if (wx < 0 && cabs(ssx) > 4.0 * cabs(eps))
        ssx = 0;
    sums[w] += 0.5 * v * bands * sch;
    if (n < x->nvband)
        sums[x->nend + w] -= v * bands * ssx;
    if (w == 0)
        sums[2 * x->nend] -= 0.5 * v * bands * eps;
}

static void ngpw(const gpp_problem *x, ptrdiff_t n, number *sums) {
    for (ptrdiff_t g = 0; g < x->ncouls; g++)
        for (ptrdiff_t p = 0; p < x->ngpown; p++)
            for (ptrdiff_t w = 0; w < x->nend; w++)
                term(x, n, p, g, w, sums);
}

static void npgw(const gpp_problem *x, ptrdiff_t n, number *sums) {
    for (ptrdiff_t p = 0; p < x->ngpown; p++)
        for (ptrdiff_t g = 0; g < x->ncouls; g++)
            for (ptrdiff_t w = 0; w < x->nend; w++)
                term(x, n, p, g, w, sums);
}

static void pgnw(const gpp_problem *x, ptrdiff_t p, number *sums) {
    for (ptrdiff_t g = 0; g < x->ncouls; g++)
        for (ptrdiff_t n = 0; n < x->nb; n++)
            for (ptrdiff_t w = 0; w < x->nend; w++)
                term(x, n, p, g, w, sums);
}

/* The factor of a band and a row that no column changes: conj(aqsm) vcoul. */
FUNCTION number outside(const gpp_problem *x, ptrdiff_t n, ptrdiff_t p, ptrdiff_t step) {
    const double *aqsm = x->aqsm + step * (n * x->ncouls + x->column[p]);
    const double v = x->vcoul[x->column[p]];
    return v * aqsm[0] - v * aqsm[x->bands_im] * I;
}

FUNCTION void hoisted_by(const gpp_problem *x, ptrdiff_t n, number *sums, ptrdiff_t step) {
    const double *wx = x->wx + n * x->wx_step;
    const ptrdiff_t nend = x->nend, bim = x->bands_im, im = x->rows_im;
    for (ptrdiff_t p = 0; p < x->ngpown; p++) {
        const number factor = outside(x, n, p, step);
        const double f_re = creal(factor), f_im = cimag(factor);
        const double *aqsn = x->aqsn + step * n * x->ncouls;
        const double *eps = x->eps + step * p * x->ncouls, *wt = x->wt + step * p * x->ncouls;
        for (ptrdiff_t g = 0; g < x->ncouls; g++, aqsn += step, eps += step, wt += step) {
            const double b_re = f_re * aqsn[0] - f_im * aqsn[bim], b_im = f_re * aqsn[bim] + f_im * aqsn[0];
            const double e_re = b_re * eps[0] - b_im * eps[im], e_im = b_re * eps[im] + b_im * eps[0];
            sums[2 * nend] -= 0.5 * (e_re + e_im * I);
            for (ptrdiff_t w = 0; w < nend; w++) {
                double h_re, h_im, s_re, s_im;
                weights(wt[0], wt[im], wx[w], &h_re, &h_im, &s_re, &s_im);
                sums[w] += 0.5 * (e_re * h_re - e_im * h_im) + 0.5 * (e_re * h_im + e_im * h_re) * I;
                if (n < x->nvband)
                    sums[nend + w] -= e_re * s_re - e_im * s_im + (e_re * s_im + e_im * s_re) * I;
            }
        }
    }
}

/* Some columns of one row, in planes: poles, and products over all and over the occupied bands, times eps. */
typedef struct { double wt_re[COLUMNS], wt_im[COLUMNS], all_re[COLUMNS], all_im[COLUMNS], x_re[COLUMNS], x_im[COLUMNS]; }
    planes;

/* `all` hole to out[0], `occupied` exchange to out[1]. */
FUNCTION void weigh(const planes *x, ptrdiff_t columns, double wx, number *out) {
    double a_re = 0, a_im = 0, x_re = 0, x_im = 0;
    #pragma omp simd reduction(+ : a_re, a_im, x_re, x_im)
    for (ptrdiff_t g = 0; g < columns; g++) {
        double h_re, h_im, s_re, s_im;
        weights(x->wt_re[g], x->wt_im[g], wx, &h_re, &h_im, &s_re, &s_im);
        a_re += x->all_re[g] * h_re - x->all_im[g] * h_im;
        a_im += x->all_re[g] * h_im + x->all_im[g] * h_re;
        x_re += x->x_re[g] * s_re - x->x_im[g] * s_im;
        x_im += x->x_re[g] * s_im + x->x_im[g] * s_re;
    }
    out[0] = a_re + a_im * I;
    out[1] = x_re + x_im * I;
}

/* `all` hole: where no band is occupied. */
FUNCTION number weigh_hole(const planes *x, ptrdiff_t columns, double wx) {
    double a_re = 0, a_im = 0;
    #pragma omp simd reduction(+ : a_re, a_im)
    for (ptrdiff_t g = 0; g < columns; g++) {
        double h_re, h_im, s_re, s_im;
        weights(x->wt_re[g], x->wt_im[g], wx, &h_re, &h_im, &s_re, &s_im);
        a_re += x->all_re[g] * h_re - x->all_im[g] * h_im;
        a_im += x->all_re[g] * h_im + x->all_im[g] * h_re;
    }
    return a_re + a_im * I;
}

/* All sums over at most COLUMNS columns of one row, times `factor`. `occupied` may be NULL. */
FUNCTION void add_block(const double *all, const double *occupied, ptrdiff_t bands_im, const double *eps,
                        const double *wt, ptrdiff_t im, ptrdiff_t step, ptrdiff_t columns, const double *wx,
                        ptrdiff_t nend, number factor, number *sums) {
    planes x;
    double re = 0, imag = 0;
    #pragma omp simd reduction(+ : re, imag)
    for (ptrdiff_t g = 0; g < columns; g++) {
        const ptrdiff_t i = step * g;
        x.wt_re[g] = wt[i];
        x.wt_im[g] = wt[i + im];
        re += x.all_re[g] = all[i] * eps[i] - all[i + bands_im] * eps[i + im];
        imag += x.all_im[g] = all[i] * eps[i + im] + all[i + bands_im] * eps[i];
    }
    sums[2 * nend] -= 0.5 * factor * (re + imag * I);
    if (occupied != NULL)
        for (ptrdiff_t g = 0; g < columns; g++) {
            const ptrdiff_t i = step * g;
            x.x_re[g] = occupied[i] * eps[i] - occupied[i + bands_im] * eps[i + im];
            x.x_im[g] = occupied[i] * eps[i + im] + occupied[i + bands_im] * eps[i];
        }
    for (ptrdiff_t w = 0; w < nend; w++) {
        number found[2] = {0, 0};
        if (occupied != NULL)
            weigh(&x, columns, wx[w], found);
        else
            found[0] = weigh_hole(&x, columns, wx[w]);
        sums[w] += 0.5 * factor * found[0];
        sums[nend + w] -= factor * found[1];
    }
}

FUNCTION void blocked_by(const gpp_problem *x, ptrdiff_t n, number *sums, ptrdiff_t step) {
    for (ptrdiff_t p = 0; p < x->ngpown; p++) {
        const number factor = outside(x, n, p, step);
        for (ptrdiff_t g = 0; g < x->ncouls; g += COLUMNS) {
            const ptrdiff_t columns = x->ncouls - g < COLUMNS ? x->ncouls - g : COLUMNS;
            const double *aqsn = x->aqsn + step * (n * x->ncouls + g);
            const ptrdiff_t at = step * (p * x->ncouls + g);
            add_block(aqsn, n < x->nvband ? aqsn : NULL, x->bands_im, x->eps + at, x->wt + at, x->rows_im, step,
                      columns, x->wx + n * x->wx_step, x->nend, factor, sums);
        }
    }
}

static void hoisted(const gpp_problem *x, ptrdiff_t n, number *sums) { hoisted_by(x, n, sums, 2); }
static void hoisted_planes(const gpp_problem *x, ptrdiff_t n, number *sums) { hoisted_by(x, n, sums, 1); }
static void blocked(const gpp_problem *x, ptrdiff_t n, number *sums) { blocked_by(x, n, sums, 2); }
static void blocked_planes(const gpp_problem *x, ptrdiff_t n, number *sums) { blocked_by(x, n, sums, 1); }

/* One row, some columns: `all` is the product over the bands that are not occupied, and is made that over all. */
static void row_of_product(double *all, const double *occupied, const double *eps, const double *wt, ptrdiff_t columns,
                           const double *wx, ptrdiff_t nend, double v, number *sums) {
    for (ptrdiff_t g = 0; g < columns; g += COLUMNS) {
        const ptrdiff_t here = columns - g < COLUMNS ? columns - g : COLUMNS;
        if (occupied != NULL)
            for (ptrdiff_t i = 2 * g; i < 2 * (g + here); i++)
                all[i] += occupied[i];
        add_block(all + 2 * g, occupied != NULL ? occupied + 2 * g : NULL, 1, eps + 2 * g, wt + 2 * g, 1, 2, here, wx,
                  nend, v, sums);
    }
}

static const gpp_loops LOOPS = {
    .names = {"ngpw", "npgw", "pgnw", "hoisted", "hoisted-planes", "blocked", "blocked-planes"},
    .loops = {ngpw, npgw, pgnw, hoisted, hoisted_planes, blocked, blocked_planes},
    .row_of_product = row_of_product,
};

__attribute__((visibility("default"))) const void *gemmlab_kernels(void) { return &LOOPS; }
