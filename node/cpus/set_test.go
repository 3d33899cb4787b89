package cpus

import "testing"

func TestSet(t *testing.T) {
	for text, want := range map[string]string{"": "", "3": "3", "0-3,8": "0-3,8", "8,1,0\n": "0-1,8", "1,2,3,3": "1-3"} {
		if got := set(t, text).String(); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"a", "3-1", "-1", "1,", "1-", "0-99999999"} {
		if s, err := ParseSet(text); err == nil {
			t.Errorf("%q is %v", text, s)
		}
	}
	a, b := set(t, "0-4"), set(t, "3-6")
	if a.Union(b).String() != "0-6" || a.Minus(b).String() != "0-2" || a.Intersect(b).String() != "3-4" ||
		!a.Contains(4) || a.Contains(5) {
		t.Errorf("%v and %v: %v %v %v", a, b, a.Union(b), a.Minus(b), a.Intersect(b))
	}
	if a.String() != "0-4" || b.String() != "3-6" {
		t.Errorf("the sets were changed: %v %v", a, b)
	}
}
