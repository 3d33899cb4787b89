package docker

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

var errSize = errors.New("must be a size, such as 64m or 1g")

// ParseBytes parses a size such as 64m, 1.5g, 512kb or 1024, in units of 1024.
func ParseBytes(text string) (int64, error) {
	lower := strings.ToLower(strings.TrimSpace(text))
	number := strings.TrimRight(lower, "bikmgtp ")
	unit := strings.TrimSpace(lower[len(number):])
	unit = strings.TrimSuffix(strings.TrimSuffix(unit, "b"), "i")
	power := strings.Index(" kmgtp", unit)
	if unit == "" {
		power = 0
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || power < 0 || len(unit) > 1 || !(value >= 0) {
		return 0, errSize
	}
	bytes := value * math.Pow(1024, float64(power))
	if bytes > 1<<62 {
		return 0, errSize
	}
	return int64(bytes), nil
}

// BytesQuantity returns a number of bytes as a quantity.
func BytesQuantity(bytes int64) resource.Quantity {
	return *resource.NewQuantity(bytes, resource.BinarySI)
}

// ParseCPUs parses a number of CPUs such as 0.5 as a quantity.
func ParseCPUs(text string) (resource.Quantity, error) {
	value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(value >= 0) || value > 1e6 {
		return resource.Quantity{}, errors.New("must be a number of CPUs, such as 0.5")
	}
	return *resource.NewMilliQuantity(int64(math.Ceil(value*1000)), resource.DecimalSI), nil
}

// ParseDuration parses a duration such as 1m30s, 500ms or 2d. A bare number has the given unit, if
// that is not 0.
func ParseDuration(text string, unit time.Duration) (time.Duration, error) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseInt(text, 10, 32); err == nil && unit > 0 && n >= 0 {
		return time.Duration(n) * unit, nil
	}
	rest, days := text, time.Duration(0)
	if before, after, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseUint(before, 10, 15)
		if err != nil {
			return 0, errDuration
		}
		if days, rest = time.Duration(n)*24*time.Hour, after; rest == "" {
			return days, nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 {
		return 0, errDuration
	}
	return days + d, nil
}

var errDuration = errors.New("must be a duration, such as 10s or 1m30s")

// Seconds returns a duration in seconds, rounded up, and whether that changed it.
func Seconds(d time.Duration) (seconds int64, rounded bool) {
	seconds = int64((d + time.Second - 1) / time.Second)
	return seconds, time.Duration(seconds)*time.Second != d
}

// ParseBool parses a boolean of YAML 1.1 or of systemd.
func ParseBool(text string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "yes", "on", "y", "1":
		return true, nil
	case "false", "no", "off", "n", "0":
		return false, nil
	}
	return false, errors.New("must be true or false")
}

// Names of users and groups are resolved in the image, which is not at hand; only root is known everywhere.
const (
	remedyUser  = "write the number, which `id NAME` prints in a container of the image"
	remedyGroup = "write the number in what `getent group NAME` prints in a container of the image, " +
		"or on the host for the group of one of its devices"
)

// ParseUser parses UID[:GID]. A nil group is that of the image.
func ParseUser(text string) (uid, gid *int64, err error) {
	user, group, grouped := strings.Cut(strings.TrimSpace(text), ":")
	if uid, err = ParseID(user); err != nil {
		return nil, nil, fmt.Errorf("the user %q is a name; %s", user, remedyUser)
	}
	if grouped && group != "" {
		if gid, err = ParseGroup(group); err != nil {
			return nil, nil, err
		}
	}
	return uid, gid, nil
}

// ParseGroup parses a numeric group.
func ParseGroup(text string) (*int64, error) {
	gid, err := ParseID(text)
	if err != nil {
		return nil, fmt.Errorf("the group %q is a name; %s", text, remedyGroup)
	}
	return gid, nil
}

// ParseID parses a numeric user or group; root is 0.
func ParseID(text string) (*int64, error) {
	if text == "root" {
		return new(int64), nil
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 0 || id > math.MaxInt32 {
		return nil, errors.New("must be a number")
	}
	return &id, nil
}
