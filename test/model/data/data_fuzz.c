/* data_fuzz.c - loaders on damaged files and with failing memory: a data set or an error, never a
 * crash.
 *
 * Run under AddressSanitizer this is a fuzzer with a fixed seed. WEIR_TEST_FULL=1 tries more. */
#include "core/mem.h"
#include "temp_folder.h"

enum { BUFFER_BYTES = 2 * CIFAR_RECORD, FORMATS = 4 };

static int rounds(void)
{
    return check_full() ? 20000 : 400;
}

/* A sound file of each format. Returns its size. */
static size_t sound(int format, unsigned char at[BUFFER_BYTES])
{
    static const char csv[] = "a,b,kind\n1,2.5,0\n-3e2,\"4\",1\n.5,6,2\n7,8,1\n";
    switch (format) {
    case 0:
        return idx_images(at, 6, 4, 3);
    case 1:
        return cifar_records(at, 0, 2);
    case 2:
        memcpy(at, csv, sizeof csv - 1);
        return sizeof csv - 1;
    default:
        return idx_labels(at, 6);
    }
}

static weir_data *load(int format, const folder *f)
{
    const char *const path = f->file[0];
    switch (format) {
    case 0:
        return weir_data_idx(path, NULL);
    case 1:
        return weir_data_cifar10(1, &path);
    case 2:
        return weir_data_csv(path, &(weir_csv_options){.header = true, .label = "kind"});
    default:
        return weir_data_idx(f->file[1], path);
    }
}

/* Reads every value and label of what was loaded. */
static bool read_all(const weir_data *d)
{
    const int64_t    n = weir_data_count(d);
    float           *x = weir_host_alloc((size_t)(weir_data_elements(d) * n) * sizeof *x);
    float           *y = weir_host_alloc((size_t)(weir_data_labels(d) * n) * sizeof *y + 1);
    weir_batches    *b =
        weir_batches_new(d, n, &(weir_batches_options){.shuffle = true, .seed = 5});
    const weir_batch to = {.x = x, .y_real = weir_data_labels(d) ? y : NULL};
    const bool       good = x && y && b && weir_batches_next(b, &to) == WEIR_OK;
    weir_batches_free(b);
    weir_host_free(x);
    weir_host_free(y);
    return good;
}

/* Changes some bytes, and sometimes cuts off or doubles a part. Returns the new size. */
static size_t damage(unsigned char at[BUFFER_BYTES], size_t n)
{
    static const unsigned char special[] = "\0\1\x7f\x80\xff,\n\"-e.9 ";
    const int64_t              changes = check_int(0, 6), kind = check_int(0, 3);

    for (int64_t i = 0; i < changes && n > 0; i++) {
        const size_t where =
            (size_t)check_int(0, (int64_t)(check_int(0, 1) && n > 40 ? 40 : n) - 1);
        at[where] = check_int(0, 1) ? special[check_int(0, (int64_t)sizeof special - 2)]
                                    : (unsigned char)check_int(0, 255);
    }
    if (kind == 0)
        n = (size_t)check_int(0, (int64_t)n);
    if (kind == 1 && 2 * n <= BUFFER_BYTES) {
        memcpy(at + n, at, n);
        n *= 2;
    }
    return n;
}

CASE(damaged_files_never_crash)
{
    static unsigned char b[BUFFER_BYTES], image[16 + 6 * 12];
    folder               f;
    int                  loaded = 0, refused = 0;
    CHECK_OR_RETURN(folder_make(&f));
    file_write(&f, 1, image, idx_images(image, 6, 4, 3));
    for (int i = 0; i < rounds(); i++)
        for (int format = 0; format < FORMATS; format++) {
            file_write(&f, 0, b, damage(b, sound(format, b)));
            weir_data *d = load(format, &f);
            if (d && CHECK(read_all(d)))
                loaded++;
            else if (CHECK(weir_error_status() == WEIR_ERR_IO && strlen(weir_error()) > 20))
                refused++;
            weir_data_free(d);
        }
    CHECK(loaded > 0 && refused > loaded / 4);
    folder_remove(&f);
}

/* Every allocation of loading and dealing fails in turn; the harness looks for leaks. */
CASE(failing_memory_is_a_status)
{
    static unsigned char b[BUFFER_BYTES], image[16 + 6 * 12];
    const weir_augment   crop = {.height = 2, .width = 2, .scale = {0.5, 1}, .flip = 0.5};
    folder               f;
    CHECK_OR_RETURN(folder_make(&f));
    file_write(&f, 1, image, idx_images(image, 6, 4, 3));
    for (int format = 0; format < FORMATS; format++) {
        weir_batches_options how = {.shuffle = true, .workers = 1};
        if (format != 2)                        /* a table has no images to crop */
            how.augment = &crop;
        file_write(&f, 0, b, sound(format, b));
        bool good = false;
        for (int64_t nth = 0; !good && nth < 40; nth++) {
            weir_mem_fail_nth(nth, false);
            weir_data    *d = load(format, &f);
            weir_batches *deal = d ? weir_batches_new(d, 1, &how) : NULL;
            good = !weir_mem_failed();
            weir_mem_fail_nth(-1, false);
            CHECK(good ? deal != NULL : weir_error_status() == WEIR_ERR_NOMEM);
            weir_batches_free(deal);
            weir_data_free(d);
        }
        CHECK(good);
    }
    folder_remove(&f);
}
