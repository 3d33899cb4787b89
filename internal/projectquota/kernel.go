package projectquota

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/mounts"
)

// Numbers of linux/fs.h and linux/dqblk_xfs.h. The kernel translates the commands of XFS for ext4.
const (
	getAttributes = 0x801c581f // FS_IOC_FSGETXATTR
	setAttributes = 0x401c5820 // FS_IOC_FSSETXATTR
	flagInherit   = 0x200      // FS_XFLAG_PROJINHERIT

	projectQuota  = 2            // PRJQUOTA
	getQuota      = 'X'<<8 + 3   // Q_XGETQUOTA
	setLimits     = 'X'<<8 + 4   // Q_XSETQLIM
	getState      = 'X'<<8 + 8   // Q_XGETQSTATV
	stateVersion  = 1            // FS_QSTATV_VERSION1
	quotaVersion  = 1            // FS_DQUOT_VERSION
	accounted     = 1 << 4       // FS_QUOTA_PDQ_ACCT
	enforced      = 1 << 5       // FS_QUOTA_PDQ_ENFD
	typeProject   = 2            // FS_PROJ_QUOTA
	limitBlocks   = 1<<2 | 1<<3  // FS_DQ_BSOFT | FS_DQ_BHARD
	blockSize     = 512          // of the numbers in diskQuota
	maxBlockLimit = 1<<55 - 1024 // far more than any disk, and no overflow in bytes
)

// attributes is struct fsxattr.
type attributes struct {
	flags, extentSize, extents, project, copyExtentSize uint32
	_                                                   [8]byte
}

// diskQuota is struct fs_disk_quota with its fields. Blocks are of 512 bytes.
type diskQuota struct {
	version, flags                 int8
	fields                         uint16
	id                             uint32
	hardLimit, softLimit           uint64
	inodeHardLimit, inodeSoftLimit uint64
	blocks, inodes                 uint64
	_, _                           int32
	_, _                           uint16
	_                              [4]int8
	_, _, _                        uint64
	_                              int32
	_                              uint16
	_                              int16
	_                              [8]byte
}

// state is struct fs_quota_statv.
type state struct {
	version int8
	_       uint8
	flags   uint16
	_       uint32
	_       [3][3]uint64
	_       [3]int32
	_       [4]uint16
	_       uint32
	_       [7]uint64
}

// open opens a file for the calls below without following a link at its end.
func open(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

func ioctl(fd int, request uintptr, a *attributes) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(a))); errno != 0 {
		return errno
	}
	return nil
}

// quotactl controls the project quotas of the file system of an open file. Before Linux 5.14 that takes the
// block device.
func quotactl(fd, command int, id uint32, data unsafe.Pointer) error {
	command = command<<8 | projectQuota
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), uintptr(command), uintptr(id), uintptr(data), 0, 0)
	if errno == unix.ENOSYS {
		device, err := deviceOf(fd)
		if err != nil {
			return err
		}
		_, _, errno = unix.Syscall6(unix.SYS_QUOTACTL, uintptr(command), uintptr(unsafe.Pointer(device)), uintptr(id),
			uintptr(data), 0, 0)
	}
	if errno != 0 {
		return errno
	}
	return nil
}

var errNoDevice = errors.New("the file system has no block device")

// deviceOf returns the path of the block device of the file system of an open file.
func deviceOf(fd int) (*byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	points, err := mounts.Self()
	if err != nil {
		return nil, err
	}
	for _, m := range points {
		if uint32(m.Major) == unix.Major(uint64(st.Dev)) && uint32(m.Minor) == unix.Minor(uint64(st.Dev)) {
			return unix.BytePtrFromString(m.Source)
		}
	}
	return nil, errNoDevice
}
