/* Vectors of a type T: NAME(x) is x_f32 and so on, V a vector of LANES numbers. */
#define NAME(x) JOIN(x, KIND)
#define LANES (VECTOR_BYTES / (int)sizeof(T))
typedef T NAME(Vector) __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef T NAME(Loose) __attribute__((vector_size(VECTOR_BYTES), aligned(1), may_alias));
#define V NAME(Vector)
#define LOOSE(x) (*(NAME(Loose) *)(x))
