/* A program that knows nothing of the shim drives the vendor driver's device through the preloaded library: what the command
 * line does in its tests. Guards the module, the environment variables and the interposition of libc's own symbols. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "product.h"

static void test_product(void **state)
{
    (void)state;
    ork_error error = {0};
    struct ork_npu_device *device;
    ork_npu_params params = {.kind = ORK_NPU_RKNPU};
    ork_status status = ork_npu_rknpu_open(&params, &device, &error);
    if (status != ORK_OK)
        print_message("%s: %s\n", error.where, error.what);
    assert_int_equal(status, ORK_OK);
    struct product p;
    product_make(&p, device, 4, 64, 32, 2, 3, 0, 5, 1);
    assert_true(product_run(&p, 10000000));
    product_free(&p);
    device->ops->close(device);
}

/* What the library wrote down of the test before. */
static void test_transcript(void **state)
{
    (void)state;
    FILE *file = fopen(getenv("ORK_SHIM_TRANSCRIPT"), "r");
    assert_non_null(file);
    char line[1024];
    int submits = 0, closes = 0;
    while (fgets(line, sizeof line, file)) {
        submits += strstr(line, "RKNPU_SUBMIT, {flags=0x7,") && strstr(line, ") = 0\n");
        closes += !strncmp(line, "close(", 6);
    }
    fclose(file);
    assert_int_equal(submits, 3);
    assert_int_equal(closes, 2); /* the display's node and the NPU's */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_product), cmocka_unit_test(test_transcript)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
