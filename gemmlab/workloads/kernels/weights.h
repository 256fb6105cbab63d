// The weights of one term of the self-energy: what multiplies eps in the Coulomb hole (`hole`) and in the screened
// exchange (`exchange`), for the pole `wt` and the frequency `wx`. The guards are those of the Fortran original:
//
//     delw = wt / (wx - wt)
//     |wx - wt|^2 > 1/4 and |delw|^2 < 250000:   hole = delw, exchange = wt^2 / (wx^2 - wt^2)
//     else |delw|^2 > 1e-6:                      hole = 0,    exchange = -delw / (4 delw + 2)
//     else:                                      both are 0
//     then wx < 0 and |exchange| > 4:            exchange = 0
//
// A division is one by a squared magnitude, and nothing branches: the exchange's numerator and denominator are chosen
// before it. So a compiler can take a vector of terms at once.

#define NEAREST_POLE 0.25
#define LARGEST_RATIO 250000.0
#define SMALLEST_RATIO 1e-6
#define LARGEST_EXCHANGE 16.0

FUNCTION void weights(const double wt_re, const double wt_im, const double wx,
                      double *hole_re, double *hole_im, double *exchange_re, double *exchange_im)
{
    const double far_re = wx - wt_re, far = far_re * far_re + wt_im * wt_im, each = 1.0 / far;
    const double delw_re = (wt_re * far_re - wt_im * wt_im) * each, delw_im = wt_im * wx * each;
    const double ratio = delw_re * delw_re + delw_im * delw_im;
    const double within = ratio < LARGEST_RATIO ? 1.0 : 0.0, away = far > NEAREST_POLE ? within : 0.0;
    const double either = ratio > SMALLEST_RATIO ? 1.0 : away;

    // wt^2 / (wx^2 - wt^2) = delw wt / (wx + wt)
    const double top_re = away > 0.0 ? wt_re : -1.0, low_re = away > 0.0 ? wx + wt_re : 4.0 * delw_re + 2.0;
    const double top_im = away > 0.0 ? wt_im : 0.0, low_im = away > 0.0 ? wt_im : 4.0 * delw_im;
    const double scale = 1.0 / (low_re * low_re + low_im * low_im);
    const double part_re = (top_re * low_re + top_im * low_im) * scale;
    const double part_im = (top_im * low_re - top_re * low_im) * scale;
    const double full_re = delw_re * part_re - delw_im * part_im, full_im = delw_re * part_im + delw_im * part_re;
    const double size = full_re * full_re + full_im * full_im, largest = wx < 0.0 ? LARGEST_EXCHANGE : INFINITY;
    const double kept = size <= largest ? either : 0.0;

    *hole_re = away > 0.0 ? delw_re : 0.0;
    *hole_im = away > 0.0 ? delw_im : 0.0;
    *exchange_re = kept > 0.0 ? full_re : 0.0;
    *exchange_im = kept > 0.0 ? full_im : 0.0;
}
