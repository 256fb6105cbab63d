#undef PAIR
#undef S
#undef NUMBER
#undef NUMBERS
#undef SAME
