import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { unwrap, useApi } from '../../api/client.ts'
import { useDownload } from '../../api/download.ts'
import { Button } from '../../ui/button.tsx'
import { bytesText, percentText, Time } from '../../ui/format.tsx'
import { Badge, Page, Section, type Tone } from '../../ui/page.tsx'
import { Empty, ErrorNotice, Loaded, messageOf } from '../../ui/states.tsx'
import { Table } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'
import { type Backup, type Places, RestoreSteps, Schedule, Verdict } from './backup-parts.tsx'

const activeMs = 2_000
const restingMs = 30_000

const isActive = ({ status, verification }: Backup) =>
  status === 'pending' || status === 'running' || verification?.status === 'running'

/** The backups with their checks and files, and how to restore one. */
export function Backups() {
  const api = useApi()
  const client = useQueryClient()
  const list = useQuery({
    queryKey: ['backups'],
    queryFn: () => unwrap(api.GET('/api/backups', { params: { query: { limit: 100 } } })),
    refetchInterval: ({ state }) => (state.data?.some(isActive) ? activeMs : restingMs),
  })
  const places = useQuery({ queryKey: ['settings'], queryFn: () => unwrap(api.GET('/api/settings')), select: placesOf })
  const refresh = () => client.invalidateQueries({ queryKey: ['backups'] })
  const request = useMutation({ mutationFn: () => unwrap(api.POST('/api/backups')), onSettled: refresh })
  const verify = useMutation({
    mutationFn: (id: string) => unwrap(api.POST('/api/backups/{id}/verify', { params: { path: { id } } })),
    onError: (error) => toast(messageOf(error)),
    onSettled: refresh,
  })
  const isMaking = list.data?.some(({ status }) => status === 'pending' || status === 'running') ?? false
  const isConfigured = places.data?.schedule !== undefined || places.data?.url !== undefined
  return (
    <Page
      title="Backups"
      about="Each backup is one file with the database, the report files and the keys."
      actions={
        isConfigured && (
          <Button look="primary" isDisabled={isMaking || request.isPending} onPress={() => request.mutate()}>
            Back up now
          </Button>
        )
      }
    >
      <ErrorNotice error={request.error} />
      <Loaded query={list}>
        {(backups) => (
          <>
            <Verdict backups={backups} onVerify={(id) => verify.mutate(id)} isVerifying={verify.isPending} />
            {places.data && <Schedule places={places.data} />}
            <Section title="Last backups">
              {backups.length === 0 ? (
                <div className="card">
                  <Empty title="There are no backups yet" />
                </div>
              ) : (
                <BackupTable backups={backups} onVerify={(id) => verify.mutate(id)} isVerifying={verify.isPending} />
              )}
            </Section>
            <RestoreSteps backups={backups} />
          </>
        )}
      </Loaded>
    </Page>
  )
}

function placesOf(settings: readonly { name: string; value?: string | undefined }[]): Places {
  const settingOf = (name: string) => settings.find((one) => one.name === name)?.value
  return {
    schedule: settingOf('PLINTH_BACKUP'),
    url: settingOf('PLINTH_BACKUP_URL'),
    keep: settingOf('PLINTH_BACKUP_KEEP'),
    isEncrypted: ['PLINTH_BACKUP_PASSPHRASE', 'PLINTH_BACKUP_PASSPHRASE_FILE'].some(
      (name) => settingOf(name) !== undefined,
    ),
  }
}

interface ListProps {
  backups: readonly Backup[]
  onVerify: (id: string) => void
  isVerifying: boolean
}

const BackupTable = ({ backups, ...actions }: ListProps) => (
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
