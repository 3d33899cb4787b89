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
	// maxDocument limits a JSON document in bytes, containerd's limit for a
	// manifest.
	maxDocument = 8 << 20
)

// Archive is an archive that was read. It is for one goroutine; its images' blobs
// may be read concurrently.
type Archive struct {
	file    *os.File
	entries map[string]entry
}

// entry is one file of an archive.
type entry struct {
	offset, size int64
	digest       string
	// link is the target of a link.
	link string
}

// Read reads an archive to its end, uncompressed or gzipped, and keeps it in a
// file in dir, which is removed when the archive is closed or the daemon exits.
func Read(ctx context.Context, dir string, r io.Reader) (*Archive, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("failed to store the archive temporarily: %w", err)
	}
	file, err := os.CreateTemp(dir, "images-*.tar")
	if err != nil {
		return nil, fmt.Errorf("failed to store the archive temporarily: %w", err)
	}
	// However this process ends, the space is freed.
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	a := &Archive{file: file, entries: map[string]entry{}}
	if err := a.read(bufio.NewReaderSize(contextReader{ctx, r}, 1<<20)); err != nil {
		a.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	return a, nil
}

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

// unsupportedMagic has the magic numbers of unsupported compression formats.
var unsupportedMagic = map[string]string{"\x28\xb5\x2f\xfd": "zstd", "\xfd7zXZ": "xz", "BZh": "bzip2"}

func (a *Archive) read(in *bufio.Reader) error {
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
	if bytes.HasPrefix(begin, []byte("\x1f\x8b")) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return readError(err)
		}
		from = z
	}
	out := &spool{w: bufio.NewWriterSize(a.file, 1<<20)}
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

// readError explains an error of reading.
func readError(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errors.New("the archive is truncated; copy or create it again")
	case errors.Is(err, tar.ErrHeader):
		return errors.New("not a tar archive, or damaged; docker save, podman save, skopeo copy and buildx create image archives")
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
