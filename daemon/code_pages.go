package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel maps 64 KiB of the program around each page that is used, and keeps them mapped: after
// the start nearly all of it is resident, of which an idle daemon uses a third. Unmapped pages stay
// in the page cache as long as memory is free, and are the first that the kernel takes when it is not.
const (
	// firstCodeRelease is the time from the start until the pods of most nodes have been started, and
	// codeRelease that between two releases, of which each costs about 1 ms: what the start or the change of
	// many pods has mapped is unmapped soon after it.
	firstCodeRelease = 15 * time.Second
	codeRelease      = 30 * time.Second
)

// keepCodeSmall unmaps the code that is not used, until ctx ends.
func keepCodeSmall(log *slog.Logger) task {
	return func(ctx context.Context) error {
		timer := time.NewTimer(firstCodeRelease)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-timer.C:
			}
			if err := releaseCode(); err != nil {
				log.Debug("Failed to unmap code that is not used", "err", err)
				return nil
			}
			timer.Reset(codeRelease)
		}
	}
}

// releaseCode unmaps the code and the constants of the program from this process. What is used
// again is mapped again by the kernel.
func releaseCode() error {
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return err
	}
	ranges, err := codeRanges(string(maps), uint64(reflect.ValueOf(releaseCode).Pointer()))
	if err != nil {
		return err
	}
	for _, r := range ranges {
		// These mappings are of a file and never written to, so that nothing is lost.
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(r.start), uintptr(r.end-r.start), unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("madvise: %w", errno)
		}
	}
	return nil
}

// addressRange is a part of the address space.
type addressRange struct{ start, end uint64 }

// codeRanges returns the private mappings in the text of /proc/self/smaps that are not writable and that
// nothing was ever written to, of the file with the code at an address. In a position-independent program the
// loader has written addresses to constants before it made them read-only: the file lacks them. The
// name of the file does not matter: an upgrade replaces it.
func codeRanges(maps string, code uint64) ([]addressRange, error) {
	all, err := readMappings(maps)
	if err != nil {
		return nil, err
	}
	file := ""
	for _, m := range all {
		if m.start <= code && code < m.end {
			file = m.file
		}
	}
	var ranges []addressRange
	for _, m := range all {
		if m.file == file && (m.access == "r-xp" || m.access == "r--p") && m.unwritten() {
			ranges = append(ranges, m.addressRange)
		}
	}
	if len(ranges) == 0 || file == "00:00 0" {
		return nil, fmt.Errorf("no file is mapped unchanged with the code at %x", code)
	}
	return ranges, nil
}

// mapping is a mapping in /proc/self/smaps.
type mapping struct {
	addressRange
	access string
	// file is its device and inode.
	file string
	// anonymous and swap are the memory in kB that differs from the file; empty if the kernel does not say.
	anonymous, swap string
}

// unwritten reports whether the mapping is as in its file.
func (m *mapping) unwritten() bool { return m.anonymous == "0" && m.swap == "0" }

// readMappings reads the text of /proc/self/smaps.
func readMappings(maps string) (all []mapping, err error) {
	for line := range strings.Lines(maps) {
		// 00400000-0145d000 r-xp 00000000 fe:00 1234   /usr/bin/podstead
		// Anonymous:             0 kB
		fields := strings.Fields(line)
		if len(fields) < 2 {
			return nil, fmt.Errorf("line %q of /proc/self/smaps has %d fields", line, len(fields))
		}
		if name, isField := strings.CutSuffix(fields[0], ":"); isField {
			if len(all) == 0 {
				return nil, fmt.Errorf("line %q of /proc/self/smaps belongs to no mapping", line)
			}
			switch name {
			case "Anonymous":
				all[len(all)-1].anonymous = fields[1]
			case "Swap":
				all[len(all)-1].swap = fields[1]
			}
			continue
		}
		if len(fields) < 5 {
			return nil, fmt.Errorf("line %q of /proc/self/smaps has %d fields", line, len(fields))
		}
		from, to, _ := strings.Cut(fields[0], "-")
		start, err := strconv.ParseUint(from, 16, 64)
		if err != nil {
			return nil, err
		}
		end, err := strconv.ParseUint(to, 16, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, mapping{addressRange: addressRange{start, end}, access: fields[1], file: fields[3] + " " + fields[4]})
	}
	return all, nil
}
