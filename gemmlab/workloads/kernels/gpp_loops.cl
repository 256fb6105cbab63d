// The original loops: a work-item for each row p and band n, with an inner loop over g. One for each n, p and g would need
// more numbers than 32 bits have: 512 x 1638 x 32768 work-items at the contest's size.

__kernel GROUP void loops(OPERANDS)
{
    __local double2 part[2 * ITEMS];
    const int p = get_global_id(0), n = get_global_id(1), inside = p < rows && n < bands;
    const double v = inside ? vcoul[first + p] : 0, of_occupied = inside && n < occupied ? v : 0;
    const size_t row = (size_t)(first + (inside ? p : 0)) * ncouls, of_band = (size_t)band[inside ? n : 0] * ncouls;
    const double2 a = left[inside ? (size_t)n * rows + p : 0];
    for (int w = 0; w <= nend; w++) {
        double re = 0, im = 0, occupied_re = 0, occupied_im = 0;
        for (int g = 0; g < ncouls; g++) {
            const double2 b = aqsn[of_band + g], e = eps[row + g], pole = wt[row + g];
            const double m_re = a.x * b.x - a.y * b.y, m_im = a.x * b.y + a.y * b.x;
            const double term_re = m_re * e.x - m_im * e.y, term_im = m_re * e.y + m_im * e.x;
            double hole_re = 1, hole_im = 0, exchange_re = 0, exchange_im = 0;
            if (w < nend)
                weights(pole.x, pole.y, wx[w], &hole_re, &hole_im, &exchange_re, &exchange_im);
            re += term_re * hole_re - term_im * hole_im;
            im += term_re * hole_im + term_im * hole_re;
            occupied_re += term_re * exchange_re - term_im * exchange_im;
            occupied_im += term_re * exchange_im + term_im * exchange_re;
        }
        part[ITEM].x = v * re;
        part[ITEM].y = v * im;
        part[ITEMS + ITEM].x = of_occupied * occupied_re;
        part[ITEMS + ITEM].y = of_occupied * occupied_im;
        add_up(part, 2);
        if (ITEM == 0)
            sums[place_of(w < nend ? w : 2 * nend)] = part[0];
        if (ITEM == 0 && w < nend)
            sums[place_of(nend + w)] = part[ITEMS];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
