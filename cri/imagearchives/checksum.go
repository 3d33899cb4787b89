package imagearchives

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/podstead/podstead/internal/boundedfile"
	"github.com/podstead/podstead/internal/fileaccess"
)

// The names of checksum files: one for an archive, and one for all of a directory, as
// sha256sum writes them.
const (
	sumSuffix = ".sha256"
	sumsName  = "SHA256SUMS"
	// maxSums limits a checksum file in bytes.
	maxSums = 1 << 20
)

// checksum is what a checksum file specifies about an archive.
type checksum struct {
	// file is the name of the checksum file.
	file string
	// digest is the sum in hex.
	digest string
	// fault is why the file has no sum for the archive.
	fault string
}

func isChecksum(name string) bool { return name == sumsName || strings.HasSuffix(name, sumSuffix) }

// readSums returns what the checksum files in a directory say about its archives, by the
// name of the archive.
func readSums(dir string, names, archives []string) map[string][]checksum {
	sums := map[string][]checksum{}
	for _, name := range names {
		of, single := strings.CutSuffix(name, sumSuffix)
		if !isChecksum(name) || strings.HasPrefix(name, ".") {
			continue
		}
		lines, fault := readSumFile(filepath.Join(dir, name))
		if single {
			sum := checksum{file: name, digest: lines[of], fault: fault}
			if sum.digest == "" {
				sum.digest = lines[""]
			}
			if sum.digest == "" && fault == "" {
				sum.fault = name + " contains no SHA-256 sum of it: create it with sha256sum " + of + " > " + name
			}
			sums[of] = append(sums[of], sum)
			continue
		}
		for _, archive := range archives {
			if digest := lines[archive]; digest != "" || fault != "" {
				sums[archive] = append(sums[archive], checksum{file: name, digest: digest, fault: fault})
			}
		}
	}
	return sums
}

// readSumFile returns the sums of a checksum file by the base names of the files, and
// with the empty name that of the first line without a name. The formats are those of
// sha256sum, with and without --tag.
func readSumFile(path string) (map[string]string, string) {
	info, err := os.Lstat(path)
	if err == nil {
		if why := fileaccess.Writers(info); why != "" {
			return nil, filepath.Base(path) + " may be changed by users other than root: " + why +
				"; run chown root:root and chmod go-w on it"
		}
	}
	data, err := boundedfile.Read(path, maxSums)
	if err != nil {
		return nil, "cannot read " + filepath.Base(path) + ": " + plain(err) + "; correct or remove it"
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		digest, name, _ := strings.Cut(line, " ")
		name = strings.TrimPrefix(strings.TrimSpace(name), "*")
		if tagged, ok := strings.CutPrefix(line, "SHA256 ("); ok {
			name, digest, _ = strings.Cut(tagged, ") = ")
		}
		if raw, err := hex.DecodeString(digest); err != nil || len(raw) != 32 {
			continue
		}
		if name != "" {
			name = filepath.Base(name)
		}
		if sums[name] == "" {
			sums[name] = digest
		}
	}
	return sums, ""
}

// plain returns an error without the path, which the message has already.
func plain(err error) string {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err.Error()
	}
	return err.Error()
}
