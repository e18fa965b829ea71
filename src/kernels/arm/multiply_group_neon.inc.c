/* Chooses the register tile for the rows of a group: tiles of up to four rows. Included by a tile that has defined
 * multiply_rows and BRICK_ROWS 4. The full tile is a function of its own, kept out of line, because what its surroundings
 * keep in registers would be spilled within the innermost loop. */

static __attribute__((noinline)) void multiply_full_tile(const struct panel_group *group)
{
    multiply_rows(group, BRICK_ROWS);
}

static void multiply_group(const struct panel_group *group)
{
    switch (group->rows) {
    case 1:
        multiply_rows(group, 1);
        break;
    case 2:
        multiply_rows(group, 2);
        break;
    case 3:
        multiply_rows(group, 3);
        break;
    default:
        multiply_full_tile(group);
        break;
    }
}
