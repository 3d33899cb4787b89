package hangup

import (
	"errors"
	"os"
	"strconv"
	"testing"
	"time"
)

const second = time.Second

// came is a process that came into the container from outside.
func came(pid int, begun time.Duration, args ...string) process {
	return process{pid: pid, parent: 1, session: pid, begun: begun, args: args}
}

func TestFind(t *testing.T) {
	init := process{pid: 10, parent: 1, session: 10, begun: 1 * second, args: []string{"app"}}
	job := process{pid: 12, parent: 10, session: 12, begun: 101 * second, args: []string{"sleep", "9"}}
	old := came(13, 50*second, "sleep", "9")
	sleep := []string{"sleep", "9"}
	for name, c := range map[string]struct {
		all    []process
		others []Exec
		want   int
		err    error
	}{
		"it has ended": {all: nil},
		"alone":        {all: []process{came(20, 100*second, "sleep", "9")}, want: 20},
		"a script":     {all: []process{came(20, 100*second, "/bin/sh", "/usr/bin/sleep", "9")}, want: 20},
		// A probe, or what another client began, looks the same.
		"it may have become another": {all: []process{came(20, 101*second, "busy")}},
		"a probe beside":             {all: []process{came(20, 100*second, "sleep", "9"), came(21, 101*second, "probe")}, want: 20},
		"the same twice at once":     {all: []process{came(20, 100*second, "sleep", "9"), came(21, 100*second, "sleep", "9")}, others: []Exec{{begun: 100 * second, args: sleep}}, err: ErrUnclear},
		"the same again later":       {all: []process{came(21, 120*second, "sleep", "9"), came(20, 100*second, "sleep", "9")}, others: []Exec{{begun: 120 * second, args: sleep}}, want: 20},
		"the same, of which it left": {all: []process{came(21, 120*second, "sleep", "9")}, others: []Exec{{begun: 120 * second, args: sleep}}, err: ErrUnclear},
		"the same of nobody known":   {all: []process{came(20, 100*second, "sleep", "9"), came(21, 100*second, "sleep", "9")}, err: ErrUnclear},
	} {
		e := &Execs{}
		x := e.Begin("c", sleep)
		x.begun = 100 * second
		for _, o := range c.others {
			e.Begin("c", o.args).begun = o.begun
		}
		e.Begin("other container", sleep).begun = 100 * second
		got, err := x.find(append([]process{init, job, old}, c.all...), 10)
		pid := 0
		if got != nil {
			pid = got.pid
		}
		if pid != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: found %d, %v; want %d, %v", name, pid, err, c.want, c.err)
		}
	}
}

func TestEndForgetsTheSession(t *testing.T) {
	e := &Execs{}
	x, y := e.Begin("c", nil), e.Begin("c", nil)
	y.End()
	if others := x.others(); len(others) != 0 {
		t.Errorf("%d others", len(others))
	}
}

// This process is read as the kernel shows it.
func TestInContainer(t *testing.T) {
	all, err := inContainer("/proc", os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.pid == os.Getpid() {
			if age := sinceBoot() - p.begun; p.parent != os.Getppid() || !p.runs(os.Args) || age < 0 || age > time.Hour {
				t.Errorf("%+v, begun %v ago", p, age)
			}
			return
		}
	}
	t.Errorf("process %s is not among %d", strconv.Itoa(os.Getpid()), len(all))
}
