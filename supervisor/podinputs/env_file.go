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

// maxEnvFile bounds a file of variables, in bytes: a container wrote it, and
// the daemon reads it.
const maxEnvFile = 1 << 20

// fileKey is the value of a variable in a file that a container of the pod
// wrote into a volume; false if it is optional and not there.
func (b *envBuilder) fileKey(ref *v1.FileKeySelector) (string, bool, error) {
	file, err := b.openFile(ref.VolumeName, ref.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if isTrue(ref.Optional) {
			return "", false, nil
		}
		return "", false, fmt.Errorf("fileKeyRef: volume %s has no file %q", ref.VolumeName, ref.Path)
	}
	if err != nil {
		return "", false, fmt.Errorf("fileKeyRef: cannot open %q in volume %s: %w", ref.Path, ref.VolumeName, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxEnvFile+1))
	if err == nil && len(text) > maxEnvFile {
		err = fmt.Errorf("it is larger than %d MiB", maxEnvFile>>20)
	}
	value, found := "", false
	if err == nil {
		value, found, err = variableIn(text, ref.Key)
	}
	switch {
	case err != nil:
		return "", false, fmt.Errorf("fileKeyRef: cannot read %q in volume %s: %w", ref.Path, ref.VolumeName, err)
	case !found && !isTrue(ref.Optional):
		return "", false, fmt.Errorf("fileKeyRef: file %q in volume %s has no variable %s", ref.Path, ref.VolumeName, ref.Key)
	}
	return value, found, nil
}

// openIn opens a regular file below a folder. No link leads out of the folder,
// and nothing but a file is opened: what is there was written by a container.
func openIn(folder, path string) (io.ReadCloser, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	// Should it have become a pipe just now, opening it must not wait.
	return root.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
}

// variableIn looks a variable up in a text of lines such as NAME='value'. The
// form is that of the kubelet: a value stands in single quotes, may go over
// several lines, and is taken as it is; a comment begins with #; no space comes
// before the equal sign, and one behind it leaves the variable empty, which
// counts as not there.
func variableIn(text []byte, name string) (value string, found bool, err error) {
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
			return "", false, fmt.Errorf("line %d: the value must stand in single quotes", number)
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
			return "", false, fmt.Errorf("line %d: nothing but a comment may follow the closing quote", number)
		}
		if key == name {
			return value, value != "", nil
		}
		text, number = rest, number+1
	}
	return "", false, nil
}
