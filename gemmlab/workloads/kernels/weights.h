// The weights of one term of the self-energy: what multiplies eps in the Coulomb hole (`hole`) and in the screened
// exchange (`exchange`), for the pole `wt` and the frequency `wx`. The guards are those of the Fortran original:
//
//     delw = wt / (wx - wt)
//     |wx - wt|^2 > 1/4 and |delw|^2 < 250000:   hole = delw, exchange = wt^2 / (wx^2 - wt^2)
//     else |delw|^2 > 1e-6:                      hole = 0,    exchange = -delw / (4 delw + 2)
//     else:                                      both are 0
//     then wx < 0 and |exchange| > 4:            exchange = 0
//
// A division is one by a squared magnitude, and nothing branches: both cases are computed, and one is chosen. So a
// compiler can take a vector of terms at once.

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
    const int away = (far > NEAREST_POLE) & (ratio < LARGEST_RATIO), near = (!away) & (ratio > SMALLEST_RATIO);

    // wt^2 / (wx^2 - wt^2) = delw wt / (wx + wt)
    const double sum_re = wx + wt_re, over = 1.0 / (sum_re * sum_re + wt_im * wt_im);
    const double part_re = (wt_re * sum_re + wt_im * wt_im) * over, part_im = wt_im * wx * over;
    const double away_re = delw_re * part_re - delw_im * part_im, away_im = delw_re * part_im + delw_im * part_re;

    const double twice_re = 4.0 * delw_re + 2.0, twice_im = 4.0 * delw_im;
    const double under = 1.0 / (twice_re * twice_re + twice_im * twice_im);
    const double near_re = -(delw_re * twice_re + delw_im * twice_im) * under;
    const double near_im = -(delw_im * twice_re - delw_re * twice_im) * under;

    const double re = away ? away_re : near ? near_re : 0.0, im = away ? away_im : near ? near_im : 0.0;
    const int kept = (wx >= 0.0) | (re * re + im * im <= LARGEST_EXCHANGE);
    *hole_re = away ? delw_re : 0.0;
    *hole_im = away ? delw_im : 0.0;
    *exchange_re = kept ? re : 0.0;
    *exchange_im = kept ? im : 0.0;
}
