// Command release builds what a release consists of, for each platform: the program, the
// licences of what is linked, a bill of materials, an archive, packages, and the checksums of
// all. The same commit and the same version of Go give the same bytes, in any directory.
//
// It owns the output directory. It reads the tree, the module cache and what the linker
// recorded in the program. It never asks git: the Makefile passes version, commit and date.
//
// GoReleaser was examined instead (2.17 and 2.18, November 2026), with configuration for its nfpm and an SBOM tool:
//
//   - It builds from a git repository with a tag of semantic versioning. Outside of one it builds snapshots only, which
//     are all of version v0.0.0, so that a source archive gives no release, and a commit between tags no version that
//     dpkg and rpm sort between them.
//   - It replaces 195 of the 943 lines: compiling, archives, checksums and the lists of the packages, which become
//     configuration of the same entries. Manual pages, completions, the packaged unit and configuration, changelogs,
//     the packages' versions and the licences stay. The bill of materials stays too, since each linked module must be
//     one whose licence was collected.
//   - It is 1548 packages of 321 modules, nfpm 204 of 56, and 2.18 needs a newer version of Go than podstead.
package main
