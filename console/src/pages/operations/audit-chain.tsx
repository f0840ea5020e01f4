import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { unwrap, useApi } from '../../api/client.ts'
import type { components } from '../../api/schema.d.ts'
import { Button } from '../../ui/button.tsx'
import { CopyButton } from '../../ui/copy.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { CheckField, TextField } from '../../ui/fields.tsx'
import { bytesText, countText, Time } from '../../ui/format.tsx'
import { Section } from '../../ui/page.tsx'
import { ErrorNotice, Loaded } from '../../ui/states.tsx'
import { Table } from '../../ui/table.tsx'

type Run = components['schemas']['AuditVerification']

const pollMs = 2_000

/** The result of the last verification of the chain, and a dialog that starts a new verification. */
export function Chain() {
  const api = useApi()
  const [isOpen, setOpen] = useState(false)
  const query = useQuery({
    queryKey: ['audit', 'verification'],
    queryFn: () => unwrap(api.GET('/api/audit/verification')),
    refetchInterval: ({ state }) => (state.data?.status === 'running' ? pollMs : false),
  })
  return (
    <Section
      title="Verification"
      actions={
        <Button isDisabled={query.data?.status === 'running'} onPress={() => setOpen(true)}>
          Verify the log
        </Button>
      }
    >
      <Loaded query={query}>{(run) => <Outcome run={run} />}</Loaded>
      <VerifyDialog isOpen={isOpen} onClose={() => setOpen(false)} />
    </Section>
  )
}

function Outcome({ run: { status, result, startedAt, finishedAt, node, error } }: { run: Run }) {
  if (status === 'never')
    return (
      <p className="notice" role="status">
        The log has not been verified yet.
      </p>
    )
  if (status === 'running')
    return (
      <p className="notice" role="status">
        Verifying on {node} since <Time at={startedAt} isRelative /> …
      </p>
    )
  if (result === undefined)
    return (
      <p className="notice warn" role="status">
        The verification that began <Time at={startedAt} isRelative /> could not be completed: {error}
      </p>
    )
  const checkpoint = result.checkpoint && `${result.checkpoint.sequence}:${result.checkpoint.hash}`
  return (
    <div className={`notice ${result.intact ? 'good' : 'wrong'} stack tight`} role="status">
      <p>
        <strong>
          {result.intact
            ? `The audit log is intact: ${countText(result.entries ?? 0)} entries`
            : `The audit log was altered: ${alteredText(result)}`}
        </strong>
      </p>
      <p>
        Verified <Time at={finishedAt} isRelative /> on {node}
        {result.archives !== undefined && `, with ${countText(result.archives)} archived months`}.
      </p>
      {checkpoint !== undefined && (
        <div className="row">
          <span>
            Store this checkpoint elsewhere, for the next verification: <code>{checkpoint}</code>
          </span>
          <CopyButton text={checkpoint} label="Copy the checkpoint" />
        </div>
      )}
    </div>
  )
}

const alteredText = ({ altered }: NonNullable<Run['result']>) =>
  altered?.sequence === undefined ? altered?.reason : `entry ${altered.sequence} ${altered.reason}`

function VerifyDialog({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const api = useApi()
  const client = useQueryClient()
  const [expect, setExpect] = useState('')
  const [archives, setArchives] = useState(false)
  const start = useMutation({
    mutationFn: () =>
      unwrap(
        api.POST('/api/audit/verification', { body: { archives, ...(expect.trim() && { expect: expect.trim() }) } }),
      ),
    onSuccess: onClose,
    onSettled: () => client.invalidateQueries({ queryKey: ['audit', 'verification'] }),
  })
  return (
    <Dialog title="Verify the audit log" isOpen={isOpen} onClose={onClose}>
      <p>A thread reads every entry and compares the hashes. Requests do not wait for it.</p>
      <TextField
        label="Earlier checkpoint"
        hint="Optional. Only a checkpoint that was stored elsewhere shows whether the newest entries were removed."
        value={expect}
        placeholder="1204:2esZL…"
        onChange={setExpect}
      />
      <CheckField label="Also verify the archived months" isSelected={archives} onChange={setArchives} />
      <ErrorNotice error={start.error} />
      <div className="row end">
        <Button isDisabled={start.isPending} onPress={onClose}>
          Cancel
        </Button>
        <Button look="primary" isDisabled={start.isPending} onPress={() => start.mutate()}>
          Verify
        </Button>
      </div>
    </Dialog>
  )
}

/** Lists the archived months, which are no longer in the database. Renders nothing if there are none. */
export function Archives() {
  const api = useApi()
  const query = useQuery({ queryKey: ['audit', 'archives'], queryFn: () => unwrap(api.GET('/api/audit/archives')) })
  if (query.data?.length === 0) return null
  return (
    <Section title="Archived months">
      <p className="quiet">
        Entries of these months are no longer in the list and its export, but in files of the result store.
      </p>
      <Loaded query={query}>
        {(archives) => (
          <Table
            label="Archived months"
            rows={archives.toReversed()}
            keyOf={({ month }) => month}
            columns={[
              { title: 'Month', cell: ({ month }) => <strong>{month}</strong> },
              {
                title: 'Entries',
                cell: ({ firstSequence, lastSequence }) => `${countText(firstSequence)} to ${countText(lastSequence)}`,
              },
              { title: 'File', cell: ({ key }) => <code>{key}</code> },
              { title: 'Size', isNumber: true, cell: ({ sizeBytes }) => bytesText(sizeBytes) },
              { title: 'Archived', cell: ({ archivedAt }) => <Time at={archivedAt} isRelative /> },
            ]}
          />
        )}
      </Loaded>
    </Section>
  )
}
