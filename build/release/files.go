package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// checksumFile has the SHA-256 of every other file of the release, as sha256sum -c reads it.
const checksumFile = "SHA256SUMS"

// entry is a file of an archive.
type entry struct {
	// name is its path in the archive, source its path here.
	name, source string
	mode         int64
}

// base returns the name of an archive and of the directory in it.
func (r release) base(p platform) string {
	return "podstead_" + strings.TrimPrefix(r.version, "v") + "_linux_" + p.name
}

// archive writes the archive for systems without packages.
func (r release) archive(p platform) error {
	list := []entry{
		{"podstead", r.program(p), 0o755},
		{"podstead.service", filepath.Join("examples", "podstead.service"), 0o644},
		{"config.yaml", r.configFile(), 0o644},
		{"README.md", "README.md", 0o644}, {"LICENSE", "LICENSE", 0o644}, {"CHANGELOG.md", "CHANGELOG.md", 0o644},
		{"SECURITY.md", "SECURITY.md", 0o644},
	}
	for to, from := range map[string]string{
		"docs": "docs", "examples": "examples", "man": filepath.Join(r.stage, "man"),
		"completions": filepath.Join(r.stage, "completions"),
		"licenses":    filepath.Join(r.stage, p.name, "licenses"),
	} {
		files, err := tree(from, to)
		if err != nil {
			return err
		}
		list = append(list, files...)
	}
	data, err := archiveOf(r.base(p), list, r.date)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, r.base(p)+".tar.gz"), data, 0o644)
}

// tree returns the files below a directory as entries below to.
func tree(from, to string) (list []entry, err error) {
	err = filepath.WalkDir(from, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(from, file)
		list = append(list, entry{path.Join(to, filepath.ToSlash(rel)), file, 0o644})
		return err
	})
	return list, err
}

// archiveOf returns a compressed archive that depends on the files, their names and the date
// alone.
func archiveOf(top string, list []entry, date time.Time) ([]byte, error) {
	list = slices.SortedFunc(slices.Values(list), func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(zip)
	for _, e := range list {
		data, err := os.ReadFile(e.source)
		if err != nil {
			return nil, err
		}
		header := tar.Header{Typeflag: tar.TypeReg, Name: path.Join(top, e.name), Size: int64(len(data)), Mode: e.mode,
			ModTime: date, Uname: "root", Gname: "root"}
		if err := w.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	err = errors.Join(w.Close(), zip.Close())
	return out.Bytes(), err
}

// compress replaces a file by FILE.gz, which has no name and no time in it.
func compress(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err = zip.Write(data); err != nil {
		return err
	}
	return errors.Join(zip.Close(), os.WriteFile(file+".gz", out.Bytes(), 0o644), os.Remove(file))
}

// checksums writes the checksums of all files in the output directory.
func (r release) checksums() error {
	files, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(r.out, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(data), f.Name())
	}
	return os.WriteFile(filepath.Join(r.out, checksumFile), []byte(text.String()), 0o644)
}

func copyFile(from, to string, mode fs.FileMode) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, mode)
}
