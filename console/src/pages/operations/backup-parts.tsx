import type { components } from '../../api/schema.d.ts'
import { Button } from '../../ui/button.tsx'
import { Code } from '../../ui/code.tsx'
import { CopyButton } from '../../ui/copy.tsx'
import { agoText, bytesText, Time } from '../../ui/format.tsx'
import { Facts, Section } from '../../ui/page.tsx'

export type Backup = components['schemas']['Backup']

/** When and where backups are made, according to the settings of the node that handles the request. */
export interface Places {
  schedule: string | undefined
  url: string | undefined
  keep: string | undefined
  isEncrypted: boolean
}

interface VerdictProps {
  backups: readonly Backup[]
  onVerify: (id: string) => void
  isVerifying: boolean
}

/**
 * Returns the completed backup with the most recent data. It need not be first in the list, which is sorted by
 * schedule.
 */
function newestOf(backups: readonly Backup[]): Backup | undefined {
  const takenAt = (backup: Backup) => backup.takenAt ?? backup.scheduledFor
  return backups
    .filter(({ status }) => status === 'completed')
    .toSorted((one, other) => takenAt(other).localeCompare(takenAt(one)))[0]
}

/** States whether the newest backup is reliable. */
export function Verdict({ backups, onVerify, isVerifying }: VerdictProps) {
  const newest = newestOf(backups)
  if (newest === undefined) {
    if (backups.every(({ status }) => status !== 'failed')) return null
    return <p className="notice wrong">No backup has been completed.</p>
  }
  const { tone, text } = verdictOn(newest)
  const canVerify = newest.availability === 'here' && newest.verification?.status !== 'running'
  return (
    <div className={`notice ${tone} stack tight`} role="status">
      <p>
        <strong>{text}</strong>
      </p>
      <p>
        It contains every change before <Time at={newest.takenAt ?? newest.scheduledFor} /> (
        {agoText(newest.takenAt ?? newest.scheduledFor)}
        {newest.sizeBytes !== undefined && `, ${bytesText(newest.sizeBytes)}`}).
        {newest.verification?.error !== undefined && ` ${newest.verification.error}.`}
      </p>
      {canVerify && (
        <div className="row">
          <Button isCompact isDisabled={isVerifying} onPress={() => onVerify(newest.id)}>
            {newest.verification === undefined ? 'Verify the newest backup' : 'Verify it again'}
          </Button>
        </div>
      )}
    </div>
  )
}

function verdictOn({ availability, verification, damagedResults = 0, missingResults = 0 }: Backup) {
  if (availability === 'removed') return { tone: 'wrong', text: 'The file of the newest backup is no longer there.' }
  if (verification === undefined) return { tone: 'warn', text: 'The newest backup has not been checked.' }
  if (verification.status === 'running') return { tone: '', text: 'The newest backup is being checked …' }
  if (verification.status === 'failed') return { tone: 'wrong', text: 'The newest backup is damaged or incomplete.' }
  if (verification.status === 'error') return { tone: 'warn', text: 'The newest backup could not be checked.' }
  const lacking = damagedResults + missingResults
  if (lacking > 0)
    return { tone: 'warn', text: `The newest backup is good, except ${lacking} report files missing or damaged.` }
  return { tone: 'good', text: 'The newest backup is complete and unaltered.' }
}

/** Shows when and where backups are made or, if they are not configured, how to configure them. */
export function Schedule({ places: { schedule, url, keep, isEncrypted } }: { places: Places }) {
  if (schedule === undefined && url === undefined)
    return (
      <p className="notice warn">
        Backups are not configured. Set <code>PLINTH_BACKUP</code> to a schedule such as <code>0 3 * * *</code>, or{' '}
        <code>PLINTH_BACKUP_URL</code> to a folder or bucket, and restart the service.
      </p>
    )
  return (
    <Section title="Schedule">
      <div className="card">
        <Facts
          of={[
            ['Schedule', schedule === undefined ? 'none' : <code key="schedule">{schedule}</code>],
            ['Place', url === undefined ? 'the folder backups in the data folder' : <code key="url">{url}</code>],
            ['Kept', `${keep ?? '–'} scheduled and ${keep ?? '–'} requested`],
            [
              'Encryption',
              isEncrypted
                ? 'with a passphrase'
                : 'none: a file contains the master key in plain form, and cannot be downloaded here. Set PLINTH_BACKUP_PASSPHRASE_FILE.',
            ],
          ]}
        />
      </div>
    </Section>
  )
}

/**
 * Explains how to restore a backup on the command line. The console cannot do this, because the target must be empty.
 */
export function RestoreSteps({ backups }: { backups: readonly Backup[] }) {
  const file = newestOf(backups)?.file ?? 'plinth-20261123T030004Z.backup'
  const command = `npx plinth backup --verify ${file}`
  const restore = `PLINTH_DATA_DIR=/opt/plinth/data npx plinth restore ${file}`
  return (
    <Section title="Restore">
      <div className="card">
        <ol className="steps">
          <li>Copy or download the file to the machine, and keep its passphrase at hand.</li>
          <li>
            Check the file:
            <Command label="Command that checks a backup" text={command} />
          </li>
          <li>
            Stop the service, and move its data folder away. On PostgreSQL, create a new, empty database. A restore
            overwrites nothing.
          </li>
          <li>
            Restore into the empty place, with the settings of the service:
            <Command label="Command that restores a backup" text={restore} />
          </li>
          <li>
            Start the service. Revoke again what was revoked after the backup: its tokens, keys and sessions are valid
            again.
          </li>
        </ol>
      </div>
    </Section>
  )
}

function Command({ label, text }: { label: string; text: string }) {
  return (
    <div className="stack tight">
      <Code label={label}>{text}</Code>
      <div className="row">
        <CopyButton text={text} />
      </div>
    </div>
  )
}
