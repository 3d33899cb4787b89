package hangup

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc/PID/stat; it is the same on each Linux.
const tick = 10 * time.Millisecond

// process is a process of a container.
type process struct {
	pid, parent, session int
	begun                time.Duration
	args                 []string
	// deaf says that it ignores SIGHUP.
	deaf bool
}

// inContainer are the processes of the container whose first one is init.
func inContainer(proc string, init int) ([]process, error) {
	cgroup, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(init), "cgroup"))
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	var all []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// One that ends meanwhile is none.
		dir := filepath.Join(proc, e.Name())
		if own, err := os.ReadFile(filepath.Join(dir, "cgroup")); err != nil || !bytes.Equal(own, cgroup) {
			continue
		}
		if p, err := readProcess(dir, pid); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

func readProcess(dir string, pid int) (process, error) {
	p := process{pid: pid}
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return p, err
	}
	// The name before the last parenthesis may hold anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" {
		return p, fmt.Errorf("process %d has ended", pid)
	}
	number := func(i int) int64 {
		n, e := strconv.ParseInt(fields[i], 10, 64)
		if e != nil {
			err = e
		}
		return n
	}
	p.parent, p.session, p.begun = int(number(1)), int(number(3)), time.Duration(number(19))*tick
	if err != nil {
		return p, err
	}
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return p, err
	}
	p.args = strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return p, err
	}
	for l := range strings.Lines(string(status)) {
		if mask, ok := strings.CutPrefix(l, "SigIgn:"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			p.deaf = err == nil && bits&1 != 0 // SIGHUP is 1
		}
	}
	return p, nil
}

// runs says whether the process shows the command. For a script the kernel puts
// its interpreter before.
func (p process) runs(args []string) bool {
	for i := range min(3, len(p.args)) {
		own := p.args[i:]
		if len(own) != len(args) || filepath.Base(own[0]) != filepath.Base(args[0]) {
			continue
		}
		same := true
		for j := 1; j < len(args); j++ {
			same = same && own[j] == args[j]
		}
		if same {
			return true
		}
	}
	return false
}
