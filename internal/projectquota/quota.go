package projectquota

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Range of project IDs that this package uses: 65536 from 0x70000000. It is far from those that
// users count up from 1, and from those of the kubelet, which begin at 1048577.
const (
	First = 0x70000000
	count = 1 << 16
)

// IsOwn reports whether a project ID is one of this package's range.
func IsOwn(id uint32) bool { return id >= First && id < First+count }

// ErrNotEnforced is the error of Enforced for a file system without enforced project quotas.
var ErrNotEnforced = errors.New("the file system does not enforce project quotas")

// Quota is the project quota of a directory, in bytes.
type Quota struct {
	// ID is 0 without a project ID.
	ID uint32
	// Accounted reports that Used and Inodes are known: the kernel counts them.
	Accounted    bool
	Used, Inodes uint64
	// Limit is 0 if there is none, or if it is not enforced.
	Limit uint64
}

// Kernel uses the quotas of the kernel. The zero value is ready to use.
type Kernel struct{ ids }

// Enforced returns nil if the file system of a directory enforces project quotas, else
// ErrNotEnforced. Any other error reports why it is not known.
func (*Kernel) Enforced(dir string) error {
	fd, err := open(dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	flags, err := stateOf(fd)
	if err == nil && (flags&accounted == 0 || flags&enforced == 0) {
		return ErrNotEnforced
	}
	return err
}

// stateOf returns the flags of the project quotas of a file system; none without the feature, with
// quotas off, on a kernel without quotas, or where this process may not use them.
func stateOf(fd int) (uint16, error) {
	s := state{version: stateVersion}
	err := quotactl(fd, getState, 0, unsafe.Pointer(&s))
	for _, none := range []error{unix.ENOSYS, unix.EINVAL, unix.ENOTBLK, unix.EOPNOTSUPP, unix.ENOENT, unix.ENODEV,
		unix.ESRCH, unix.EPERM, errNoDevice} {
		if errors.Is(err, none) {
			return 0, nil
		}
	}
	if err != nil {
		return 0, fmt.Errorf("failed to read the state of quotas: %w", err)
	}
	return s.flags, nil
}

// Get is the function Get.
func (*Kernel) Get(dir string) (Quota, error) { return Get(dir) }

// Get returns the quota of a directory. Of an ID that is not of this package's range only that is
// set. A file system without project IDs is no error.
func Get(dir string) (Quota, error) {
	fd, err := open(dir)
	if err != nil {
		return Quota{}, err
	}
	defer unix.Close(fd)
	var a attributes
	if err := ioctl(fd, getAttributes, &a); err != nil {
		for _, none := range []error{unix.ENOTTY, unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL} {
			if errors.Is(err, none) {
				return Quota{}, nil
			}
		}
		return Quota{}, &os.PathError{Op: "read the project ID of", Path: dir, Err: err}
	}
	q := Quota{ID: a.project}
	if !IsOwn(a.project) {
		return q, nil
	}
	flags, err := stateOf(fd)
	if err != nil || flags&accounted == 0 {
		return q, err
	}
	d, err := read(fd, a.project)
	if err != nil {
		return Quota{}, err
	}
	q.Accounted, q.Used, q.Inodes = true, d.blocks*blockSize, d.inodes
	if flags&enforced != 0 {
		q.Limit = d.hardLimit * blockSize
	}
	return q, nil
}

// read returns the entry of a project; a zero one if there is none.
func read(fd int, id uint32) (d diskQuota, err error) {
	err = quotactl(fd, getQuota, id, unsafe.Pointer(&d))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return diskQuota{}, nil
	}
	if err != nil {
		return diskQuota{}, fmt.Errorf("failed to read the quota of project %d: %w", id, err)
	}
	return d, nil
}

// Limit sets the limit of a project on the file system of a directory, in bytes; 0 removes it.
func (*Kernel) Limit(dir string, id uint32, bytes uint64) error {
	fd, err := open(dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// Rounded up: a claim of 1 byte must not be without a limit.
	blocks := min(bytes/blockSize+min(bytes%blockSize, 1), maxBlockLimit)
	d := diskQuota{version: quotaVersion, flags: typeProject, fields: limitBlocks, id: id, hardLimit: blocks,
		softLimit: blocks}
	if err := quotactl(fd, setLimits, id, unsafe.Pointer(&d)); err != nil {
		return fmt.Errorf("failed to set the quota of project %d: %w", id, err)
	}
	return nil
}
