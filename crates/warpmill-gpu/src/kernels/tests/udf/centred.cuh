namespace udf {

template <class P> struct Group : Reductions<P> {
    const f64* v0;
    const u8* p0;
    __device__ __forceinline__ Row<f64> x0(i64 i) const { return {v0[i], !p0 || p0[i]}; }
    const i64* v1;
    const u8* p1;
    __device__ __forceinline__ Row<i64> x1(i64 i) const { return {v1[i], !p1 || p1[i]}; }
};

template <class G> __device__ inline Result<f64> function(const G& g, const Launch& k, Context& c) {
    f64 spread_ = {};
    // spread = ((x - x.mean()) ** 2).sum()
    spread_ = g.sum_f64(c, [&, s0 = g.mean(c, [&](i64 i, Context& c) { return g.x0(i); }, All{})](i64 i, Context& c) { return power(sub(c, 2, g.x0(i), each<f64>(s0)), rounded(each<i64>((i64)2ll))); }, All{});
    // chosen = y[x > x.mean()]
    const auto mchosen_1 = [&, s0 = g.mean(c, [&](i64 i, Context& c) { return g.x0(i); }, All{})](i64 i, Context& c) { return holds(gt(g.x0(i), each<f64>(s0))); };
    // if chosen.count() > 2:
    if (gt(g.count(c, [&](i64 i, Context& c) { return g.x1(i); }, [&](i64 i, Context& c) { return mchosen_1(i, c); }), (i64)2ll)) {
        // return math.sqrt(spread) + chosen.max()
        return result_f64(add(c, 5, inside(c, 5, sqrt(spread_), spread_), rounded(value_of(g.template greatest<i64>(c, [&](i64 i, Context& c) { return g.x1(i); }, [&](i64 i, Context& c) { return mchosen_1(i, c); })))));
    }
    // return spread + y.sum() - x.idxmin()
    return result_f64(sub(c, 6, add(c, 6, spread_, rounded(g.sum_i64(c, 6, [&](i64 i, Context& c) { return g.x1(i); }, All{}))), rounded(position_of(g.template least<f64>(c, [&](i64 i, Context& c) { return g.x0(i); }, All{})))));
    return {};
}

template <class P> __device__ inline void run(const Launch& k, i64 group) {
    Group<P> g;
    const i64 begin = k.offsets[group];
    g.n = k.offsets[group + 1] - begin;
    g.v0 = (const f64*)k.values[0] + begin;
    g.p0 = k.present[0] ? k.present[0] + begin : 0;
    g.v1 = (const i64*)k.values[1] + begin;
    g.p1 = k.present[1] ? k.present[1] + begin : 0;
    Context c = {0, 0, k.cancelled};
    const Result<f64> result = function(g, k, c);
    if (g.p.first() == 0) {
        ((f64*)k.results)[group] = result.v;
        k.known[group] = result.ok;
        k.status[group] = c.status;
    }
}

}  // namespace udf
