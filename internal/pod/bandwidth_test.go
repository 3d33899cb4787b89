package pod

import "testing"

func TestCheckBandwidth(t *testing.T) {
	for value, ok := range map[string]bool{"1k": true, "10M": true, "1P": true, "1500000": true, "999": false, "2P": false,
		"-1M": false, "fast": false, "": false} {
		if err := CheckBandwidth(value); (err == nil) != ok {
			t.Errorf("%q: %v", value, err)
		}
	}
}
