namespace udf {

template <class P> struct Group : Reductions<P> {
    const f64* v0;
    const u8* p0;
    __device__ __forceinline__ Row<f64> x0(i64 i) const { return {v0[i], !p0 || p0[i]}; }
};

template <class G> __device__ inline Result<f64> function(const G& g, const Launch& k, Context& c) {
    f64 product_ = {};
    Null<f64> value_ = {};
    // product = 1.0
    product_ = 1.0;
    // for value in x:
    {
        const auto e1c0 = [&](i64 i, Context& c) { return g.x0(i); };
        for (i64 i1 = 0; i1 < g.n && c.goes_on(); i1++) {
            value_ = item(e1c0(i1, c));
            // product *= 1 + value / 100
            product_ = mul(c, 4, product_, add(c, 4, rounded((i64)1ll), divide(known(c, 4, value_), divisor(c, 4, rounded((i64)100ll)))));
        }
    }
    // return product - 1
    return result_f64(sub(c, 5, product_, rounded((i64)1ll)));
    return {};
}

template <class P> __device__ inline void run(const Launch& k, i64 group) {
    Group<P> g;
    const i64 begin = k.offsets[group];
    g.n = k.offsets[group + 1] - begin;
    g.v0 = (const f64*)k.values[0] + begin;
    g.p0 = k.present[0] ? k.present[0] + begin : 0;
    Context c = {0, 0, k.cancelled};
    const Result<f64> result = function(g, k, c);
    if (g.p.first() == 0) {
        ((f64*)k.results)[group] = result.v;
        k.known[group] = result.ok;
        k.status[group] = c.status;
    }
}

}  // namespace udf
