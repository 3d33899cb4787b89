package volume

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
)

// mountPoint is one line of /proc/self/mountinfo.
type mountPoint struct {
	path string
	// shared: what is mounted below it is seen in other mount namespaces;
	// slave: what is mounted below it elsewhere is seen here.
	shared, slave bool
}

// readMounts reads /proc/self/mountinfo; tests put lines of their own there.
func (v *Volumes) readMounts() ([]mountPoint, error) {
	if v.mounts != nil {
		return v.mounts()
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseMountInfo(f)
}

// parseMountInfo reads lines of the form in proc_pid_mountinfo(5): the fifth
// field is where, those from the seventh to a dash tell of propagation.
func parseMountInfo(r io.Reader) ([]mountPoint, error) {
	var points []mountPoint
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		point := mountPoint{path: unescape(fields[4])}
		for _, tag := range fields[min(6, len(fields)):] {
			if tag == "-" {
				break
			}
			point.shared = point.shared || strings.HasPrefix(tag, "shared:")
			point.slave = point.slave || strings.HasPrefix(tag, "master:")
		}
		points = append(points, point)
	}
	return points, lines.Err()
}

// unescape turns the kernel's octal escapes (space, tab, newline, backslash)
// into what they stand for.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mountsBelow are the mount points at or below a path, the last mounted first:
// in that order they can be taken down.
func mountsBelow(points []mountPoint, path string) []string {
	var found []string
	for i := len(points) - 1; i >= 0; i-- {
		if at := points[i].path; at == path || strings.HasPrefix(at, path+"/") {
			found = append(found, at)
		}
	}
	return found
}

// mountOf is the mount that a path lies in: the deepest, and of several at one
// place the last.
func mountOf(points []mountPoint, path string) (best mountPoint) {
	for _, p := range points {
		inside := p.path == path || p.path == "/" || strings.HasPrefix(path, p.path+"/")
		if inside && len(p.path) >= len(best.path) {
			best = p
		}
	}
	return best
}
