package volume

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
)

func (v *Volumes) mountPoints() ([]string, error) {
	if v.MountPoints != nil {
		return v.MountPoints()
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseMountInfo(f)
}

// parseMountInfo takes the fifth field of each line, see proc_pid_mountinfo(5).
func parseMountInfo(r io.Reader) ([]string, error) {
	var points []string
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 {
			points = append(points, unescape(fields[4]))
		}
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

// below is the first mount point at or below a path, empty if there is none.
func below(points []string, path string) string {
	for _, point := range points {
		if point == path || strings.HasPrefix(point, path+"/") {
			return point
		}
	}
	return ""
}
