package maintenance

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

func berlin(t *testing.T) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func mustWindow(t *testing.T, text string) Window {
	t.Helper()
	w, err := ParseWindow(text)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestParseWindow(t *testing.T) {
	for _, text := range []string{"02:00-05:00", "2:00-5:00", "Sat,Sun 22:00-04:00", "Mon..Fri 01:30-02:30",
		"fri..mon 00:00-24:00", "sat, sun 02:00-03:00"} {
		if w, err := ParseWindow(text); err != nil || w.String() != text {
			t.Errorf("%s: %v, %v", text, w, err)
		}
	}
	for text, want := range map[string]string{
		"":                     "no end",
		"02:00":                "no end",
		"02:00-02:00":          "is empty",
		"24:00-02:00":          "only valid as the end",
		"02:00-25:00":          `"25:00" is not a time of day`,
		"02:0-03:00":           `"02:0" is not a time of day`,
		"02:60-03:00":          `"02:60"`,
		"-1:00-03:00":          `"" is not a time of day`,
		"Caturday 02:00-03:00": `"Caturday" is not a day`,
		"Sat.. 02:00-03:00":    `"Sat.." is not a day`,
		"Sat,, 02:00-03:00":    `"" is not a day`,
	} {
		_, err := ParseWindow(text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "use [DAYS ]HH:MM-HH:MM") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Each occurrence of a window in local time, over midnight and over the changes to and from
// daylight saving time, which in Berlin are at 02:00 on 2026-03-29 and at 03:00 on
// 2026-10-25.
func TestNextWindow(t *testing.T) {
	loc := berlin(t)
	for _, c := range []struct{ windows, at, start, end string }{
		{"02:00-05:00", "2026-06-10T01:00+02:00", "2026-06-10T02:00+02:00", "2026-06-10T05:00+02:00"},
		{"02:00-05:00", "2026-06-10T02:00+02:00", "2026-06-10T02:00+02:00", "2026-06-10T05:00+02:00"},
		{"02:00-05:00", "2026-06-10T05:00+02:00", "2026-06-11T02:00+02:00", "2026-06-11T05:00+02:00"},
		// Over midnight: the days are those of the start.
		{"Sat 22:00-04:00", "2026-06-14T03:00+02:00", "2026-06-13T22:00+02:00", "2026-06-14T04:00+02:00"},
		{"Sat 22:00-04:00", "2026-06-14T04:00+02:00", "2026-06-20T22:00+02:00", "2026-06-21T04:00+02:00"},
		{"Sat 00:00-24:00", "2026-06-13T23:59+02:00", "2026-06-13T00:00+02:00", "2026-06-14T00:00+02:00"},
		{"Fri..Mon 01:00-02:00", "2026-06-16T03:00+02:00", "2026-06-19T01:00+02:00", "2026-06-19T02:00+02:00"},
		// The first of several windows, over the end of a month and of a year.
		{"Sun 02:00-03:00;Thu 04:00-05:00", "2026-12-31T06:00+01:00", "2027-01-03T02:00+01:00", "2027-01-03T03:00+01:00"},
		// 02:00 to 03:00 is skipped: a window is shorter, begins at the change, or moves after it.
		{"01:00-04:00", "2026-03-29T00:00+01:00", "2026-03-29T01:00+01:00", "2026-03-29T04:00+02:00"},
		{"02:30-04:00", "2026-03-29T00:00+01:00", "2026-03-29T03:00+02:00", "2026-03-29T04:00+02:00"},
		{"Sun 02:00-02:45", "2026-03-29T00:00+01:00", "2026-03-29T03:00+02:00", "2026-03-29T03:45+02:00"},
		{"22:00-02:30", "2026-03-28T23:00+01:00", "2026-03-28T22:00+01:00", "2026-03-29T03:00+02:00"},
		// 02:00 to 03:00 occurs twice: the first one counts, and 03:00 is an hour later.
		{"02:00-03:00", "2026-10-25T00:00+02:00", "2026-10-25T02:00+02:00", "2026-10-25T03:00+01:00"},
		{"02:30-05:00", "2026-10-25T00:00+02:00", "2026-10-25T02:30+02:00", "2026-10-25T05:00+01:00"},
		{"01:00-02:30", "2026-10-25T02:45+02:00", "2026-10-26T01:00+01:00", "2026-10-26T02:30+01:00"},
	} {
		var windows []Window
		for text := range strings.SplitSeq(c.windows, ";") {
			windows = append(windows, mustWindow(t, text))
		}
		const layout = "2006-01-02T15:04Z07:00"
		at, err := time.Parse(layout, c.at)
		if err != nil {
			t.Fatal(err)
		}
		start, end := Next(windows, at, loc)
		if start.Format(layout) != c.start || end.Format(layout) != c.end {
			t.Errorf("%s at %s: %s to %s, want %s to %s", c.windows, c.at, start.Format(layout), end.Format(layout), c.start,
				c.end)
		}
	}
}

// Each occurrence in two years in zones with unusual changes ends after it begins and
// contains its start; the next one follows.
func TestWindowsAreNeverEmpty(t *testing.T) {
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia",
		"Africa/Cairo", "America/St_Johns"} {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"00:00-00:30", "23:30-00:30", "02:00-02:10", "Sun 01:59-03:01"} {
			w := []Window{mustWindow(t, text)}
			at, count := time.Date(2010, 12, 1, 12, 0, 0, 0, loc), 0
			for last := at.AddDate(2, 0, 0); at.Before(last); count++ {
				start, end := Next(w, at, loc)
				if !end.After(start) || !end.After(at) || end.Sub(start) > 3*time.Hour {
					t.Fatalf("%s %s at %s: %s to %s", zone, text, at, start, end)
				}
				at = end
			}
			if want := map[bool]int{true: 104, false: 730}[strings.HasPrefix(text, "Sun")]; count < want-1 || count > want+2 {
				t.Errorf("%s %s: %d occurrences in two years", zone, text, count)
			}
		}
	}
}
