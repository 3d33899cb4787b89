package httpapi

import (
	"context"
	"errors"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/podstead/podstead/internal/retry"
)

// The delays between two attempts to open a listener.
const (
	listenRetryMin = time.Second
	listenRetryMax = 30 * time.Second
)

// passing are the errors that can pass without a change of the settings: another program has
// the port, the address or the network is not there yet, or the disk takes no file.
var passing = []syscall.Errno{
	syscall.EADDRINUSE, syscall.EADDRNOTAVAIL, syscall.ENETDOWN, syscall.ENODEV,
	syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE,
}

// canRetry reports whether a listener may open later although it failed to.
func canRetry(err error) bool {
	var errno syscall.Errno
	var dns *net.DNSError
	return errors.As(err, &dns) || errors.As(err, &errno) && slices.Contains(passing, errno)
}

// retry calls open until it succeeds or ctx ends; failed is the error of the first attempt. It
// reports the failure, each time that its reason changes, and the success.
func (s *Server) retry(ctx context.Context, what string, failed error, open func() error) {
	delay, reported := listenRetryMin, ""
	for err := failed; err != nil; err = open() {
		if text := err.Error(); text != reported {
			reported = text
			s.onListener(what, err)
		}
		if !retry.Sleep(ctx, delay) {
			return
		}
		delay = min(2*delay, listenRetryMax)
	}
	s.onListener(what, nil)
}

func (s *Server) onListener(what string, err error) {
	if err != nil {
		s.cfg.Log.Warn("Failed to open a listener, retrying; pods are not affected", "listener", what, "err", err)
	} else {
		s.cfg.Log.Info("Listener opened", "listener", what)
	}
	if s.cfg.OnListener != nil {
		s.cfg.OnListener(what, err)
	}
}
