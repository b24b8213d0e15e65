/* product.c - tests of what follows from the sizes of a product. */
#include "device/cuda/lib/product.h"

#include "check.h"

/* (2,3,4) matrices of 5 x 6 by 6 x 7; b has one matrix for each index of the last axis. */
static weir_product batches(void)
{
    return (weir_product){.dtype = WEIR_F32, .m = 5, .n = 7, .k = 6, .lda = 6, .ldb = 7, .ldc = 7,
                          .axes = 3, .dim = {2, 3, 4}, .step_a = {360, 120, 30},
                          .step_b = {0, 0, 42}, .step_c = {420, 140, 35}};
}

CASE(axes_merge_where_all_matrices_go_on)
{
    weir_product p = batches();
    weir_product_merge(&p);
    CHECK(p.axes == 2);
    CHECK(p.dim[0] == 6 && p.step_a[0] == 120 && p.step_b[0] == 0 && p.step_c[0] == 140);
    CHECK(p.dim[1] == 4 && p.step_a[1] == 30 && p.step_b[1] == 42 && p.step_c[1] == 35);
}

CASE(axes_of_one_matrix_go)
{
    weir_product p = batches();
    p.dim[1] = 1;
    weir_product_merge(&p);
    CHECK(p.axes == 2 && p.dim[0] == 2 && p.dim[1] == 4);
    for (int i = 0; i < p.axes; i++)
        p.dim[i] = 1;
    weir_product_merge(&p);
    CHECK(p.axes == 0 && weir_product_count(&p) == 1);
}

CASE(merging_moves_no_matrix)
{
    const weir_product p = batches();
    weir_product       merged = p;
    weir_product_merge(&merged);
    CHECK(weir_product_count(&merged) == weir_product_count(&p));
    for (int64_t i = 0; i < weir_product_count(&p); i++) {
        int64_t was[3], is[3];
        weir_product_at(&p, i, &was[0], &was[1], &was[2]);
        weir_product_at(&merged, i, &is[0], &is[1], &is[2]);
        CHECK_BITS(was, is, sizeof was);
    }
}

CASE(addresses_are_as_even_as_rows_and_steps)
{
    weir_product p = batches();
    CHECK(weir_product_align(&p, 8, (const int64_t[]){0, 0, 0}, 16) == 16);
    CHECK(weir_product_align(&p, 6, p.step_a, 16) == 8);
    CHECK(weir_product_align(&p, 8, (const int64_t[]){16, 4, 5}, 16) == 4);
    p.dtype = WEIR_BF16;
    p.axes = 0;
    CHECK(weir_product_align(&p, 7, p.step_b, 16) == 2);
    CHECK(weir_product_align(&p, 4, p.step_b, 16) == 8);
}

/* Element (row, col) of a row-major matrix is element (col, row) of the column-major one. */
CASE(cublaslt_sees_transposed_matrices)
{
    for (int turned = 0; turned < 4; turned++) {
        weir_product p = {.dtype = WEIR_F32, .ta = (turned & 1) != 0, .tb = (turned & 2) != 0,
                          .m = 5, .n = 7, .k = 6, .ldc = 7};
        p.lda = p.ta ? p.m : p.k;
        p.ldb = p.tb ? p.k : p.n;
        const weir_lt_shape s = weir_product_lt(&p);
        CHECK(s.ta == p.tb && s.tb == p.ta);
        /* Its op(A) is n x k, its op(B) k x m, D n x m. */
        CHECK((s.ta ? s.a.cols : s.a.rows) == p.n && (s.ta ? s.a.rows : s.a.cols) == p.k);
        CHECK((s.tb ? s.b.cols : s.b.rows) == p.k && (s.tb ? s.b.rows : s.b.cols) == p.m);
        CHECK(s.c.rows == p.n && s.c.cols == p.m);
        CHECK(s.a.ld == p.ldb && s.b.ld == p.lda && s.c.ld == p.ldc);
        CHECK(s.a.ld >= s.a.rows && s.b.ld >= s.b.rows && s.c.ld >= s.c.rows);
        CHECK(s.batch == 1 && s.calls == 1 && s.along == -1 && weir_lt_takes(&s));
    }
}

CASE(cublaslt_takes_the_longest_axis_at_once)
{
    weir_product p = batches();
    weir_product_merge(&p);
    const weir_lt_shape s = weir_product_lt(&p);
    CHECK(s.along == 0 && s.batch == 6 && s.calls == 4 && weir_lt_takes(&s));
    CHECK(s.a.step == 0 && s.b.step == 120 && s.c.step == 140);
    p.dim[0] = p.dim[1] = 40;
    const weir_lt_shape many = weir_product_lt(&p);
    CHECK(many.calls == 40 && !weir_lt_takes(&many));
}

CASE(cublaslt_is_not_asked_for_nothing)
{
    const weir_product p = {.dtype = WEIR_F32, .m = 5, .n = 7, .k = 6, .lda = 6, .ldb = 7,
                            .ldc = 7};
    weir_product       q = p;
    weir_lt_shape      s = weir_product_lt(&p);
    CHECK(weir_lt_takes(&s));
    q.k = q.lda = 0;
    s = weir_product_lt(&q);
    CHECK(!weir_lt_takes(&s));
    q = p;
    q.m = 0;
    s = weir_product_lt(&q);
    CHECK(!weir_lt_takes(&s));
    q = p;
    q.m = (int64_t)INT32_MAX + 1;
    s = weir_product_lt(&q);
    CHECK(!weir_lt_takes(&s));
}

CASE(workspaces_of_cublaslt)
{
    CHECK(weir_lt_limit(9, NULL) == (size_t)32 << 20);
    CHECK(weir_lt_limit(10, "") == (size_t)32 << 20);
    CHECK(weir_lt_limit(8, NULL) == (size_t)4 << 20);
    CHECK(weir_lt_limit(8, "4MB") == (size_t)4 << 20);
    CHECK(weir_lt_limit(8, "-1") == (size_t)4 << 20);
    CHECK(weir_lt_limit(9, "0") == 0);
    CHECK(weir_lt_limit(9, "12345") == 12345);
}

static weir_product plain(int64_t m, int64_t n, int64_t k, weir_dtype t)
{
    return (weir_product){.dtype = t, .m = m, .n = n, .k = k, .lda = k, .ldb = n, .ldc = n};
}

CASE(tiles_grow_with_results)
{
    const weir_product vector = plain(1, 5000, 64, WEIR_F32), some = plain(70, 150, 64, WEIR_F32);
    const weir_product many = plain(2048, 2048, 64, WEIR_F32);
    const weir_product wide = plain(2048, 2048, 64, WEIR_F64);
    CHECK(weir_gemm_tile_of(&vector) == WEIR_GEMM_SMALL);
    CHECK(weir_gemm_tile_of(&some) == WEIR_GEMM_MEDIUM);
    CHECK(weir_gemm_tile_of(&many) == WEIR_GEMM_LARGE);
    CHECK(weir_gemm_tile_of(&wide) == WEIR_GEMM_MEDIUM);
}

/* The slices cover all terms, none is empty, and the workspace holds their sums. */
CASE(slices_cover_long_sums)
{
    static const int64_t size[][3] = {{1, 1, 1 << 20}, {64, 64, 4096}, {20, 25, 3000}, {7, 9, 511},
                                      {7, 9, 512}, {500, 500, 600}, {3, 3, 0}, {0, 3, 9000},
                                      {2048, 2048, 100000}, {1, 1, 16385}};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        for (weir_dtype t = WEIR_F32; t <= WEIR_F64; t++) {
            const weir_product p = plain(size[i][0], size[i][1], size[i][2], t);
            const int64_t      slices = weir_gemm_slices(&p), slice = weir_gemm_slice(&p);
            CHECK(slices >= 1 && slices <= WEIR_GEMM_SLICES && slice % 16 == 0);
            CHECK(slices * slice >= p.k);
            CHECK(slices == 1 || p.k / slices >= WEIR_GEMM_SLICE);
            CHECK(weir_gemm_work(&p) ==
                  (slices > 1 ? (size_t)(slices * p.m * p.n) * (t == WEIR_F64 ? 8 : 4) : 0));
        }
    const weir_product inner = plain(1, 1, 1 << 20, WEIR_F16);
    CHECK(weir_gemm_slices(&inner) == WEIR_GEMM_SLICES && weir_gemm_work(&inner) == 64 * 4);
}
