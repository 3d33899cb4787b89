// Command release builds what a release consists of, for each platform: the program, the
// licences of what is linked, a bill of materials, an archive, packages, and the checksums of
// all. The same commit and the same version of Go give the same bytes, in any directory.
//
// It owns the output directory. It reads the tree, the module cache and what the linker
// recorded in the program. It never asks git: the Makefile passes version, commit and date.
package main
