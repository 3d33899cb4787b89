package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel maps 64 KiB of the program around each page that is used, and keeps them mapped: after
// the start nearly all of it is resident, of which an idle daemon uses a third. Unmapped pages stay
// in the page cache as long as memory is free, and are the first that the kernel takes when it is not.
const (
	// firstCodeRelease is the time from the start until the pods of most nodes have been started. The
	// time between two releases doubles up to codeRelease.
	firstCodeRelease = 15 * time.Second
	codeRelease      = 2 * time.Minute
)

// keepCodeSmall unmaps the code that is not used, until ctx ends.
func keepCodeSmall(log *slog.Logger) task {
	return func(ctx context.Context) error {
		pause := firstCodeRelease
		timer := time.NewTimer(pause)
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
			pause = min(2*pause, codeRelease)
			timer.Reset(pause)
		}
	}
}

// releaseCode unmaps the code and the constants of the program from this process. What is used
// again is mapped again by the kernel.
func releaseCode() error {
	maps, err := os.ReadFile("/proc/self/maps")
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

// codeRanges returns the private mappings in the text of /proc/self/maps that are not writable, of the file
// with the code at an address. The name of the file does not matter: an upgrade replaces it.
func codeRanges(maps string, code uint64) ([]addressRange, error) {
	type mapping struct {
		addressRange
		access string
		// file is its device and inode.
		file string
	}
	var all []mapping
	file := ""
	for line := range strings.Lines(maps) {
		// 00400000-0145d000 r-xp 00000000 fe:00 1234   /usr/bin/podstead
		fields := strings.Fields(line)
		if len(fields) < 5 {
			return nil, fmt.Errorf("line %q of /proc/self/maps has %d fields", line, len(fields))
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
		m := mapping{addressRange{start, end}, fields[1], fields[3] + " " + fields[4]}
		if m.start <= code && code < m.end {
			file = m.file
		}
		all = append(all, m)
	}
	all = slices.DeleteFunc(all, func(m mapping) bool {
		return m.file != file || m.access != "r-xp" && m.access != "r--p"
	})
	if len(all) == 0 || file == "00:00 0" {
		return nil, fmt.Errorf("no file is mapped with the code at %x", code)
	}
	ranges := make([]addressRange, len(all))
	for i, m := range all {
		ranges[i] = m.addressRange
	}
	return ranges, nil
}
