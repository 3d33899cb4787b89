package podinputs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// maxEnvFile limits the size of an environment file, in bytes: a container has
// written it, and the daemon reads it.
const maxEnvFile = 1 << 20

// fileKey returns the value of a fileKeyRef: a variable in a file that a container
// of the pod has written into a volume; false if it is optional and missing.
func (b *envBuilder) fileKey(ref *v1.FileKeySelector) (string, bool, error) {
	file, err := b.openFile(ref.VolumeName, ref.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if isTrue(ref.Optional) {
			return "", false, nil
		}
		return "", false, fmt.Errorf("fileKeyRef: volume %s has no file %q", ref.VolumeName, ref.Path)
	}
	if err != nil {
		return "", false, fmt.Errorf("fileKeyRef: failed to open %q in volume %s: %w", ref.Path, ref.VolumeName, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxEnvFile+1))
	if err == nil && len(text) > maxEnvFile {
		err = fmt.Errorf("file is larger than %d MiB", maxEnvFile>>20)
	}
	value, found := "", false
	if err == nil {
		value, found, err = lookupVariable(text, ref.Key)
	}
	switch {
	case err != nil:
		return "", false, fmt.Errorf("fileKeyRef: failed to read %q in volume %s: %w", ref.Path, ref.VolumeName, err)
	case !found && !isTrue(ref.Optional):
		return "", false, fmt.Errorf("fileKeyRef: file %q in volume %s has no variable %s", ref.Path, ref.VolumeName, ref.Key)
	}
	return value, found, nil
}

// openBelow opens a regular file below a directory. It follows no link out of the
// directory and opens nothing but regular files: a container has written them.
func openBelow(dir, path string) (io.ReadCloser, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	// If the file has become a pipe since, opening it must not block.
	return root.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
}

// lookupVariable finds a variable in lines of the form NAME='value'. The syntax is
// the kubelet's: a value is in single quotes, may span several lines, and is taken
// literally; a comment begins with #; no space may precede the equal sign, and one
// after it leaves the variable empty, which counts as missing.
func lookupVariable(text []byte, name string) (value string, found bool, err error) {
	for number := 1; len(text) > 0; {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		statement := strings.TrimLeft(strings.TrimSuffix(string(line), "\r"), " \t")
		if statement == "" || statement[0] == '#' {
			text, number = rest, number+1
			continue
		}
		key, after, ok := strings.Cut(statement, "=")
		switch {
		case !ok || key == "" || strings.ContainsAny(key, " \t"):
			return "", false, fmt.Errorf("line %d: must be NAME='value', without a space before the equal sign", number)
		case after != strings.TrimLeft(after, " \t"):
			if key == name {
				return "", false, nil
			}
			text, number = rest, number+1
			continue
		case !strings.HasPrefix(after, "'"):
			return "", false, fmt.Errorf("line %d: the value must be in single quotes", number)
		}
		// The value may end on a later line.
		opened := bytes.IndexByte(text, '=') + 2
		length := bytes.IndexByte(text[opened:], '\'')
		if length < 0 {
			return "", false, fmt.Errorf("line %d: the quote is not closed", number)
		}
		value := string(text[opened : opened+length])
		behind, rest, _ := bytes.Cut(text[opened+length+1:], []byte("\n"))
		number += strings.Count(value, "\n")
		if trailing := strings.Trim(string(behind), " \t\r"); trailing != "" && trailing[0] != '#' {
			return "", false, fmt.Errorf("line %d: only a comment may follow the closing quote", number)
		}
		if key == name {
			return value, value != "", nil
		}
		text, number = rest, number+1
	}
	return "", false, nil
}
