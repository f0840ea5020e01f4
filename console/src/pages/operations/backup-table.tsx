import { useDownload } from '../../api/download.ts'
import { Button } from '../../ui/button.tsx'
import { bytesText, percentText, Time } from '../../ui/format.tsx'
import { Badge, type Tone } from '../../ui/page.tsx'
import { Table } from '../../ui/table.tsx'
import type { Backup } from './backup-parts.tsx'

interface ListProps {
  backups: readonly Backup[]
  onVerify: (id: string) => void
  isVerifying: boolean
}

/** The table of backups, each with its file, its state and the result of its last check. */
export const BackupTable = ({ backups, ...actions }: ListProps) => (
  <Table
    label="Backups"
    rows={backups}
    keyOf={({ id }) => id}
    columns={[
      {
        title: 'Backup',
        cell: (backup) => (
          <div className="stack tight cell-wide">
            <span title={backup.requestedBy}>
              <Time at={backup.scheduledFor} /> <span className="quiet small">{backup.kind}</span>
            </span>
            <File backup={backup} />
          </div>
        ),
      },
      { title: 'State', cell: (backup) => <State backup={backup} /> },
      { title: 'Check of the file', cell: ({ verification }) => <Verification of={verification} /> },
      { title: 'Actions', cell: (backup) => <Actions backup={backup} {...actions} /> },
    ]}
  />
)

const tones: Record<Backup['status'], Tone> = { pending: 'info', running: 'info', completed: 'good', failed: 'wrong' }

function State({ backup: { status, progress, node, error, finishedAt } }: { backup: Backup }) {
  return (
    <>
      <Badge tone={tones[status]}>{status}</Badge> {finishedAt !== undefined && <Time at={finishedAt} isRelative />}
      {status === 'pending' && <div className="quiet small">A worker starts it within 15 seconds.</div>}
      {progress !== undefined && <Progress {...progress} />}
      {error !== undefined && <div>{error}</div>}
      {node !== undefined && <div className="quiet small">{node}</div>}
    </>
  )
}

const steps = { database: 'Copying the database', archive: 'Writing the file' } as const

function Progress({ step, doneBytes, totalBytes }: NonNullable<Backup['progress']>) {
  const share = totalBytes === undefined || totalBytes === 0 ? undefined : Math.min(1, doneBytes / totalBytes)
  return (
    <div className="small">
      <progress value={share} aria-label={steps[step]} />
      {steps[step]}: {bytesText(doneBytes)}
      {totalBytes !== undefined && ` of ${bytesText(totalBytes)}`}
      {share !== undefined && ` (${percentText(share)})`}
    </div>
  )
}

const whereabouts = {
  here: null,
  elsewhere: 'on another node',
  removed: 'no longer there',
  unknown: 'the bucket does not respond',
} as const

function File({ backup: { file, sizeBytes, encrypted, location, availability } }: { backup: Backup }) {
  if (file === undefined) return null
  const where = availability === undefined ? null : whereabouts[availability]
  return (
    <>
      <code>{file}</code>
      <span className="row">
        {sizeBytes !== undefined && <span>{bytesText(sizeBytes)}</span>}
        {encrypted !== undefined && (
          <Badge tone={encrypted ? 'good' : 'warn'}>{encrypted ? 'encrypted' : 'not encrypted'}</Badge>
        )}
        {where !== null && <Badge tone="warn">{where}</Badge>}
      </span>
      {location !== undefined && <span className="quiet small">{location}</span>}
    </>
  )
}

const outcomes = {
  running: ['info', 'being checked'],
  passed: ['good', 'intact'],
  failed: ['wrong', 'damaged'],
  error: ['warn', 'not checked'],
} as const

function Verification({ of }: { of: Backup['verification'] }) {
  if (of === undefined) return <span className="quiet">not checked yet</span>
  const [tone, text] = outcomes[of.status]
  return (
    <>
      <Badge tone={tone}>{text}</Badge> <Time at={of.finishedAt ?? of.startedAt} isRelative />
      {of.error !== undefined && <div>{of.error}</div>}
    </>
  )
}

function Actions({ backup, onVerify, isVerifying }: Omit<ListProps, 'backups'> & { backup: Backup }) {
  const { download, active } = useDownload()
  const { id, file, availability, encrypted, verification } = backup
  if (file === undefined || availability !== 'here') return '–'
  return (
    <div className="row">
      <Button
        isCompact
        isDisabled={isVerifying || verification?.status === 'running'}
        onPress={() => onVerify(id)}
        aria-label={`Verify ${file}`}
      >
        Verify
      </Button>
      {encrypted === true && (
        <Button
          isCompact
          isDisabled={active !== null}
          onPress={() => void download(`/api/backups/${id}/download`, file)}
          aria-label={`Download ${file}`}
        >
          Download
        </Button>
      )}
    </div>
  )
}
