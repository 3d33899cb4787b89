package oom

import (
	"regexp"
	"strconv"
	"strings"
)

// Kill is a process that the OOM killer killed.
type Kill struct {
	Process string
	PID     int
	// Cgroup is the cgroup of the process below the hierarchy's root, empty if the
	// kernel does not report it.
	Cgroup string
	// Limit is the cgroup whose limit was exceeded, or Machine if the whole machine
	// was out of memory.
	Limit string
}

// Machine is the Limit of a kill without a cgroup limit.
const Machine = "/"

var (
	// Linux 5.0 and later. The limit is missing if it is the machine's.
	oomKillLine = regexp.MustCompile(`\boom-kill:constraint=(.*?),.*?(?:,oom_memcg=(.*))?,task_memcg=(.*),task=(.*),pid=\d+,uid=\d+$`)
	// Before Linux 5.0.
	taskLine = regexp.MustCompile(`\bTask in (.*) killed as a result of limit of (.*)$`)
	// Red Hat's 3.10 puts the user between.
	killedLine = regexp.MustCompile(`\bKilled process (\d+),?(?: UID \d+,)? \((.*)\)(?:,| total-vm)`)
)

// Parser combines the lines of the kernel log about a kill, which other lines may
// separate. The zero value is ready for use.
type Parser struct {
	cgroup, limit string
	// reported are the victims of the present kill.
	reported map[int]bool
}

// Line parses the next line, without a prefix, and returns the kill that it
// completes. Each victim is reported once, also if all of a cgroup are killed.
func (p *Parser) Line(line string) (Kill, bool) {
	switch {
	case strings.Contains(line, " invoked oom-killer: "):
		*p = Parser{}
	case strings.Contains(line, "oom-kill:"):
		if m := oomKillLine.FindStringSubmatch(line); m != nil {
			*p = Parser{cgroup: m[3], limit: m[2]}
		}
	case strings.Contains(line, "Task in "):
		if m := taskLine.FindStringSubmatch(line); m != nil {
			*p = Parser{cgroup: m[1], limit: m[2]}
		}
	case strings.Contains(line, "Killed process "):
		m := killedLine.FindStringSubmatch(line)
		if m == nil {
			break
		}
		pid, err := strconv.Atoi(m[1])
		if err != nil || p.reported[pid] {
			break
		}
		if p.reported == nil {
			p.reported = map[int]bool{}
		}
		p.reported[pid] = true
		k := Kill{Process: m[2], PID: pid, Cgroup: p.cgroup, Limit: p.limit}
		if k.Limit == "" {
			k.Limit = Machine
		}
		return k, true
	}
	return Kill{}, false
}

// message returns the text of a record of /dev/kmsg, which begins with numbers up
// to a semicolon; lines with details may follow.
func message(record string) string {
	_, text, _ := strings.Cut(record, ";")
	text, _, _ = strings.Cut(text, "\n")
	return text
}
