import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { unwrap, useApi } from '../../api/client.ts'
import { Button } from '../../ui/button.tsx'
import { Page, Section } from '../../ui/page.tsx'
import { Empty, ErrorNotice, Loaded, messageOf } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'
import { type Backup, type Places, RestoreSteps, Schedule, Verdict } from './backup-parts.tsx'
import { BackupTable } from './backup-table.tsx'

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
