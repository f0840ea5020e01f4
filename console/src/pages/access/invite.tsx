import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useAttempt } from '../../api/attempt.ts'
import { unwrap, useApi } from '../../api/client.ts'
import { Button } from '../../ui/button.tsx'
import { SecretOnce } from '../../ui/copy.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { fieldError, SelectField, TextField } from '../../ui/fields.tsx'
import { Time } from '../../ui/format.tsx'
import { ErrorNotice } from '../../ui/states.tsx'
import type { Account } from './access-types.ts'

type Role = 'user' | 'admin'

export const roles: readonly { value: Role; label: string }[] = [
  { value: 'user', label: 'User' },
  { value: 'admin', label: 'Administrator: may grant every scope' },
]

export interface Invitation {
  url: string
  expiresAt: string
  email: string
  sent?: boolean
}

/** Shows the link of a new invitation, which cannot be shown again. */
function InvitationLink({ invitation }: { invitation: Invitation }) {
  const { url, email, expiresAt, sent } = invitation
  return (
    <>
      <p>
        {sent ? `The link was sent to ${email}.` : `No mail was sent: give the link to ${email} yourself.`} It works
        once, until <Time at={expiresAt} />.
      </p>
      <SecretOnce label="Link" secret={url} />
    </>
  )
}

/** Returns a function that invites a user. A retry after a lost response does not create a second invitation. */
function useInvite() {
  const api = useApi()
  const attempt = useAttempt()
  return (id: number, body?: { role: Role }) =>
    attempt({ id, ...body }, (key) => {
      const params = { path: { id }, header: { 'Idempotency-Key': key } }
      return unwrap(api.POST('/api/users/{id}/invitation', { params, ...(body && { body }) }))
    })
}

interface Draft {
  name: string
  email: string
  role: Role
}

/**
 * Adds a user and invites them. `addedId` is the user's id once the user has been added, even if the invitation failed.
 */
function useNewUser() {
  const api = useApi()
  const queries = useQueryClient()
  // If only the invitation failed, a retry must not add the user again.
  const [addedId, setAddedId] = useState<number | null>(null)
  const [attemptUser, invite] = [useAttempt(), useInvite()]
  const invitation = useMutation({
    mutationFn: async ({ name, email, role }: Draft) => {
      const add = (key: string) =>
        unwrap(api.POST('/users', { params: { header: { 'Idempotency-Key': key } }, body: { name, email } }))
      const id = addedId ?? (await attemptUser({ name, email }, add)).id
      setAddedId(id)
      return { id, ...(await invite(id, { role })) }
    },
    // Reload the accounts even after an error, because the user may have been added before the invitation failed.
    onSettled: () => queries.invalidateQueries({ queryKey: ['accounts'] }),
  })
  return { invitation, addedId }
}

/** The dialog that adds a user and invites them. */
export function NewUser({ onClose }: { onClose: () => void }) {
  const [draft, setDraft] = useState<Draft>({ name: '', email: '', role: 'user' })
  const set = (change: Partial<Draft>) => setDraft((before) => ({ ...before, ...change }))
  const { invitation, addedId } = useNewUser()
  const { error, data } = invitation
  if (data !== undefined)
    return (
      <Dialog title="User invited" isOpen isLocked onClose={onClose}>
        <InvitationLink invitation={data} />
        <div className="row end">
          <Link to="/access/users/$userId" params={{ userId: String(data.id) }} className="button">
            Go to the user
          </Link>
          <Button look="primary" onPress={onClose}>
            Done
          </Button>
        </div>
      </Dialog>
    )
  return (
    <Dialog title="Invite a user" isOpen onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault()
          invitation.mutate(draft)
        }}
      >
        <TextField
          label="Name"
          isRequired
          isDisabled={addedId !== null}
          value={draft.name}
          onChange={(name) => set({ name })}
          error={fieldError(error, 'name')}
        />
        <TextField
          label="E-mail address"
          type="email"
          isRequired
          isDisabled={addedId !== null}
          value={draft.email}
          onChange={(email) => set({ email })}
          error={fieldError(error, 'email')}
        />
        <SelectField label="Role" value={draft.role} onChange={(role) => set({ role })} options={roles} />
        <ErrorNotice error={error} />
        <div className="row end">
          <Button look="primary" type="submit" isDisabled={invitation.isPending}>
            Invite
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

/** Invites an existing user. For a user with a password, the invitation resets it. */
export function InviteUser({ account, onClose }: { account: Account; onClose: () => void }) {
  const invite = useInvite()
  const queries = useQueryClient()
  const invitation = useMutation({
    mutationFn: () => invite(account.id),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['accounts'] }),
  })
  const title = account.hasPassword ? `Reset the password of ${account.name}?` : `Invite ${account.name}?`
  return (
    <Dialog
      title={invitation.data ? 'The link is ready' : title}
      isOpen
      isLocked={invitation.isSuccess}
      onClose={onClose}
    >
      {invitation.data ? (
        <InvitationLink invitation={invitation.data} />
      ) : (
        <p>
          {account.email} gets a link to choose a password.
          {account.hasPassword &&
            ' The current password works until then; the new one ends all sessions, tokens and consents.'}
        </p>
      )}
      <ErrorNotice error={invitation.error} />
      <div className="row end">
        <Button isDisabled={invitation.isPending} onPress={onClose}>
          {invitation.data ? 'Done' : 'Cancel'}
        </Button>
        {!invitation.data && (
          <Button look="primary" isDisabled={invitation.isPending} onPress={() => invitation.mutate()}>
            Create the link
          </Button>
        )}
      </div>
    </Dialog>
  )
}
