package archive

import (
	"archive/tar"
	"encoding/json"
	"io"
	"strings"

	"github.com/distribution/reference"
)

// WriteLayout writes images as the tar of an OCI layout, as ctr imports it: each
// by its names, and by its digest, as if it had been pulled.
func WriteLayout(w io.Writer, images []*Image) error {
	t := tar.NewWriter(w)
	index := document{SchemaVersion: 2, MediaType: typeIndex}
	written := map[string]bool{}
	for _, i := range images {
		for _, name := range i.Names {
			for _, as := range []string{name, withDigest(name, i.root.Digest)} {
				d := i.root
				d.Annotations = map[string]string{annotationName: as}
				index.Manifests = append(index.Manifests, d)
			}
		}
		for digest, b := range i.blobs {
			if written[digest] {
				continue
			}
			written[digest] = true
			if err := writeFile(t, blobPath(digest), b.size, b.open()); err != nil {
				return err
			}
		}
	}
	data, err := json.Marshal(index)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"oci-layout": `{"imageLayoutVersion":"1.0.0"}`, "index.json": string(data)} {
		if err := writeFile(t, name, int64(len(text)), strings.NewReader(text)); err != nil {
			return err
		}
	}
	return t.Close()
}

// withDigest replaces the tag of a name with a digest.
func withDigest(name, digest string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return name // it was parsed before
	}
	return reference.TrimNamed(named).Name() + "@" + digest
}

func writeFile(t *tar.Writer, name string, size int64, from io.Reader) error {
	if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err := io.Copy(t, from)
	return err
}
