/* The vendor driver's device on the played driver. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "product.h"
#include "shim/shim.h"

static void test_product(void **state)
{
    (void)state;
    assert_int_equal(ork_shim_configure("rknpu", NULL, NULL), 0);
    ork_error error = {0};
    struct ork_npu_device *device;
    ork_npu_params params = {.kind = ORK_NPU_RKNPU};
    assert_int_equal(ork_npu_rknpu_open(&params, &device, &error), ORK_OK);
    struct product p;
    product_make(&p, device, 4, 64, 32, 2, 3, 0, 5, 1);
    assert_true(product_run(&p, 10000000));
    product_free(&p);
    device->ops->close(device);
    assert_int_equal(ork_shim_configure(NULL, NULL, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_product)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
