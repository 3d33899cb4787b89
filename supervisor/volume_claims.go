package supervisor

import "github.com/podstead/podstead/supervisor/volume"

// ShareMounts makes what containers mount in their pods' volumes reach the host,
// and the other way round, where the host keeps its mounts private. It is
// called before Run.
func (s *Supervisor) ShareMounts() error { return s.podSyncer.files.volumes.ShareRoot() }

// Claims are the folders of PersistentVolumeClaims, whether or not a manifest
// still declares them.
func (s *Supervisor) Claims() ([]volume.Claim, error) { return s.podSyncer.files.volumes.ListClaims() }

// RemoveClaim deletes the folder of a claim with all that is in it. One that a
// pod uses stays, which is an error that is volume.ErrClaimInUse.
func (s *Supervisor) RemoveClaim(namespace, name string) error {
	if err := s.podSyncer.files.volumes.RemoveClaim(namespace, name); err != nil {
		return err
	}
	s.log.Info("Persistent volume removed by command", "namespace", namespace, "claim", name)
	return nil
}
