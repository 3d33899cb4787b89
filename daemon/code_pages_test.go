package daemon

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// The memory of code that is not used is not resident any more, and the program runs on.
func TestReleaseCode(t *testing.T) {
	before := residentFiles(t)
	if err := releaseCode(); err != nil {
		t.Fatal(err)
	}
	if after := residentFiles(t); after >= before {
		t.Errorf("%d kB of files are resident, %d kB before", after, before)
	}
}

// residentFiles returns the resident memory of this process that files back, in kB.
func residentFiles(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^RssFile:\s+(\d+) kB$`).FindSubmatch(status)
	if found == nil {
		t.Fatalf("no RssFile in\n%s", status)
	}
	kb, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kb
}

// The third mapping of the program is what the loader of a position-independent one has relocated, the
// fourth one the same after it was swapped out.
func TestCodeRanges(t *testing.T) {
	const unchanged, relocated, swapped = "Anonymous:             0 kB\nSwap:                  0 kB\nVmFlags: rd mr mw me\n",
		"Anonymous:           168 kB\nSwap:                  0 kB\n", "Anonymous:             0 kB\nSwap:                168 kB\n"
	const maps = `00400000-0145d000 r-xp 00000000 fe:00 1234                              /usr/bin/podstead (deleted)
` + unchanged + `0145d000-02a00000 r--p 0105d000 fe:00 1234                              /usr/bin/podstead (deleted)
` + unchanged + `02a00000-02a10000 r--p 025f0000 fe:00 1234                              /usr/bin/podstead (deleted)
` + relocated + `02a10000-02a20000 r--p 02600000 fe:00 1234                              /usr/bin/podstead (deleted)
` + swapped + `02a20000-02b00000 rw-p 02610000 fe:00 1234                              /usr/bin/podstead (deleted)
` + unchanged + `02b00000-02b80000 rw-p 00000000 00:00 0
` + unchanged + `c000000000-c000400000 rw-p 00000000 00:00 0
` + unchanged + `7f0000000000-7f0000010000 r--s 00000000 fe:00 99                        /var/lib/podstead/x
` + unchanged + `7f0000010000-7f0000020000 r--p 00000000 fe:00 98                        /usr/lib/locale/locale-archive
` + unchanged
	got, err := codeRanges(maps, 0x401000)
	if want := []addressRange{{0x400000, 0x145d000}, {0x145d000, 0x2a00000}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %x, %v", got, err)
	}
	for name, c := range map[string]struct {
		maps string
		code uint64
	}{
		"code of no mapping":    {maps, 0x10},
		"code without a file":   {maps, 0xc000000000},
		"not a table of memory": {"x\n", 0x401000},
		"no addresses":          {"x-y r-xp 0 fe:00 1\n", 0x401000},
		"no mapping":            {unchanged, 0x401000},
		"written or unknown":    {"00400000-0145d000 r-xp 00000000 fe:00 1234 /usr/bin/podstead\n", 0x401000},
	} {
		if got, err := codeRanges(c.maps, c.code); err == nil {
			t.Errorf("%s: %x", name, got)
		}
	}
}
