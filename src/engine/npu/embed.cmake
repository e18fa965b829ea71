# cmake -DINPUT=file -DOUTPUT=file.c -DSYMBOL=name -P embed.cmake: a file's bytes as a C array of that name, with name_bytes.
file(READ ${INPUT} hex HEX)
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
file(WRITE ${OUTPUT} "/* Made from a data file by the build. */
extern const unsigned char ${SYMBOL}[];
extern const unsigned long ${SYMBOL}_bytes;
const unsigned char ${SYMBOL}[] = {
${hex}};
const unsigned long ${SYMBOL}_bytes = sizeof ${SYMBOL};
")
