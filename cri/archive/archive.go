package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

const (
	// maxEntries limits the files of an archive: an image has at most a few
	// hundred layers.
	maxEntries = 100_000
	// maxNames limits the total length of the names of these files and of the targets
	// of links in bytes.
	maxNames = 16 << 20
	// maxDocument limits a JSON document in bytes. Decoded, it takes up to 40 times as
	// much memory. Documents of images have some kilobytes.
	maxDocument = 2 << 20
)

// Archive is an archive that was read. It is for one goroutine; its images' blobs
// may be read concurrently.
type Archive struct {
	file    *os.File
	entries map[string]entry
	digest  string
}

// entry is one file of an archive.
type entry struct {
	offset, size int64
	digest       string
	// link is the target of a link.
	link string
}

// Read reads an archive to its end, uncompressed or gzipped, and keeps it in a
// file in space, which is removed when the archive is closed or the daemon exits.
func Read(ctx context.Context, space TempSpace, r io.Reader) (*Archive, error) {
	file, err := space.create()
	if err != nil {
		return nil, err
	}
	a := &Archive{file: file, entries: map[string]entry{}}
	if err := a.read(ctx, bufio.NewReaderSize(contextReader{ctx, r}, 1<<20),
		&boundedFile{File: file, space: space}); err != nil {
		a.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	return a, nil
}

// Open reads an archive in a file to its end. An uncompressed one is used where it is,
// without a copy; what a compressed one contains is kept in space, as by Read. The archive
// owns the file, which is closed with it, or with an error. Nothing may change the file
// meanwhile: what was read of it is not verified again.
func Open(ctx context.Context, space TempSpace, file *os.File) (*Archive, error) {
	sum := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(contextReader{ctx, file}, sum), 1<<20)
	a := &Archive{file: file, entries: map[string]entry{}}
	var err error
	if begin, _ := in.Peek(len(magicGzip)); string(begin) == magicGzip {
		a, err = Read(ctx, space, in)
		_ = file.Close()
	} else if err = a.read(ctx, in, io.Discard); err != nil {
		_ = file.Close()
	}
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	}
	a.digest = hex.EncodeToString(sum.Sum(nil))
	return a, nil
}

// Digest returns the SHA-256 sum, in hex, of the file that Open read.
func (a *Archive) Digest() string { return a.digest }

// Close frees the archive's space.
func (a *Archive) Close() { _ = a.file.Close() }

// contextReader is a reader that ends with a context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (s contextReader) Read(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(b)
}

// spool writes to the archive's file, counts bytes, and remembers its own error.
type spool struct {
	w   *bufio.Writer
	n   int64
	err error
}

func (k *spool) Write(b []byte) (int, error) {
	n, err := k.w.Write(b)
	k.n += int64(n)
	if err != nil {
		k.err = fmt.Errorf("failed to store the archive temporarily: %w", err)
	}
	return n, k.err
}

const magicGzip = "\x1f\x8b"

// unsupportedMagic has the magic numbers of unsupported compression formats.
var unsupportedMagic = map[string]string{"\x28\xb5\x2f\xfd": "zstd", "\xfd7zXZ": "xz", "BZh": "bzip2"}

func (a *Archive) read(ctx context.Context, in *bufio.Reader, file io.Writer) error {
	begin, err := in.Peek(6)
	if len(begin) == 0 {
		if err == io.EOF {
			err = errors.New("it is empty")
		}
		return fmt.Errorf("failed to read the archive: %w", err)
	}
	for magic, name := range unsupportedMagic {
		if strings.HasPrefix(string(begin), magic) {
			return fmt.Errorf("the archive is compressed by %s: decompress it first, or use gzip", name)
		}
	}
	var from io.Reader = in
	if bytes.HasPrefix(begin, []byte(magicGzip)) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return readError(err)
		}
		// A few bytes that were read long ago can decompress for minutes.
		from = contextReader{ctx, z}
	}
	out := &spool{w: bufio.NewWriterSize(file, 1<<20)}
	tee := io.TeeReader(from, out)
	err = a.index(tar.NewReader(tee), out)
	if err == nil {
		// The rest belongs to the gzip stream, which ends with a checksum.
		_, err = io.Copy(io.Discard, from)
	}
	switch {
	case out.err != nil:
		return out.err
	case err != nil && len(a.entries) == 0 && errors.Is(err, io.ErrUnexpectedEOF):
		return readError(tar.ErrHeader)
	case err != nil:
		return readError(err)
	}
	if err := out.w.Flush(); err != nil {
		return fmt.Errorf("failed to store the archive temporarily: %w", err)
	}
	return nil
}

// index records where each file is in the spool.
func (a *Archive) index(t *tar.Reader, out *spool) error {
	names := 0
	for {
		h, err := t.Next()
		if err == io.EOF {
			if len(a.entries) == 0 {
				return errors.New("it contains no files")
			}
			return nil
		}
		if err != nil {
			return err
		}
		if len(a.entries) == maxEntries {
			return fmt.Errorf("it contains more than %d files and is no image archive", maxEntries)
		}
		if names += len(h.Name) + len(h.Linkname); names > maxNames {
			return fmt.Errorf("the names of its files have more than %d MiB, and it is no image archive", maxNames>>20)
		}
		if isSparse(h) {
			return fmt.Errorf("%q is a sparse file; create the archive with docker save, podman save, skopeo copy or buildx",
				h.Name)
		}
		name := path.Clean(strings.TrimPrefix(h.Name, "/"))
		switch h.Typeflag {
		case tar.TypeReg:
			// The tar reader reads no byte beyond the header.
			e := entry{offset: out.n, size: h.Size}
			sum := sha256.New()
			if _, err := io.Copy(sum, t); err != nil {
				return err
			}
			e.digest = "sha256:" + hex.EncodeToString(sum.Sum(nil))
			a.entries[name] = e
		case tar.TypeSymlink:
			a.entries[name] = entry{link: path.Join(path.Dir(name), h.Linkname)}
		case tar.TypeLink:
			a.entries[name] = entry{link: path.Clean(strings.TrimPrefix(h.Linkname, "/"))}
		}
	}
}

// isSparse reports whether the holes of a file are not in the archive, so that a few bytes
// of it are a file of any size.
func isSparse(h *tar.Header) bool {
	for name := range h.PAXRecords {
		if strings.HasPrefix(name, "GNU.sparse.") {
			return true
		}
	}
	return h.Typeflag == tar.TypeGNUSparse
}

// readError explains an error of reading.
func readError(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errors.New("the archive is truncated; copy or create it again")
	case errors.Is(err, tar.ErrHeader):
		return errors.New("not a tar archive, or damaged; docker save, podman save, skopeo copy and buildx create image " +
			"archives")
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader):
		return fmt.Errorf("the archive is damaged (%w); copy or create it again", err)
	}
	return fmt.Errorf("failed to read the archive: %w", err)
}

// maxLinks limits a chain of links.
const maxLinks = 8

// find returns a file by its path, following links.
func (a *Archive) find(name string) (entry, bool) {
	name = path.Clean(name)
	for range maxLinks {
		e, ok := a.entries[name]
		if !ok || e.link == "" {
			return e, ok
		}
		name = e.link
	}
	return entry{}, false
}

// document returns a JSON document of the archive.
func (a *Archive) document(e entry) ([]byte, error) {
	if e.size > maxDocument {
		return nil, fmt.Errorf("it has %d bytes, more than %d", e.size, maxDocument)
	}
	return io.ReadAll(io.NewSectionReader(a.file, e.offset, e.size))
}
