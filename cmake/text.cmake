# text.cmake - texts as the bytes of an array: C headers for kernels that are compiled at run time,
# and the page of weir dump --what html.
#
#   cmake -D OUTPUT=FILE -D "INPUTS=FILE;..." -P text.cmake
#
# One after the other, without their own #includes.
set(all "")
foreach(file IN LISTS INPUTS)
    file(READ ${file} text)
    string(REGEX REPLACE "#include[^\n]*\n" "" text "${text}")
    string(APPEND all "${text}")
endforeach()
string(HEX "${all}" all)
string(REGEX REPLACE "(................................)" "\\1\n" all "${all}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," all "${all}")
file(WRITE ${OUTPUT} "${all}\n")
