package mounts

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Self returns the mounts of this process's mount namespace, in the order of mounting.
func Self() ([]*mountinfo.Info, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(f, nil)
}

// Read parses a mountinfo file; a nil filter keeps all mounts. A line that cannot be
// parsed as a whole loses its source and options, but never its mount point.
func Read(r io.Reader, filter mountinfo.FilterFunc) ([]*mountinfo.Info, error) {
	var mounts []*mountinfo.Info
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadString('\n')
		for _, m := range parse(strings.TrimSuffix(line, "\n")) {
			skip, stop := false, false
			if filter != nil {
				skip, stop = filter(m)
			}
			if !skip {
				mounts = append(mounts, m)
			}
			if stop {
				return mounts, nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return mounts, nil
		case err != nil:
			return nil, err
		}
	}
}

// parse returns the mount of a line, none if the line has no mount point.
func parse(line string) []*mountinfo.Info {
	for _, candidate := range []string{line, withoutSource(line), withoutRoot(withoutSource(line))} {
		if candidate == "" || len(candidate) >= bufio.MaxScanTokenSize {
			continue
		}
		if found, err := mountinfo.GetMountsFromReader(strings.NewReader(candidate), nil); err == nil && len(found) == 1 {
			return found
		}
	}
	return nil
}

// withoutSource returns a line with nothing but the type behind the separator.
func withoutSource(line string) string {
	head, tail, ok := strings.Cut(line, " - ")
	if !ok {
		return ""
	}
	fsType, _, _ := strings.Cut(tail, " ")
	if fsType == "" || strings.Contains(fsType, `\`) {
		fsType = "unknown"
	}
	return head + " - " + fsType + " none none"
}

// withoutRoot returns a line whose mount has the root of its file system.
func withoutRoot(line string) string {
	fields := strings.Split(line, " ")
	if len(fields) < 4 {
		return ""
	}
	fields[3] = "/"
	return strings.Join(fields, " ")
}
