import type { ReactNode } from 'react'
import { Button } from '../../ui/button.tsx'
import { CheckField, fieldError, TextField } from '../../ui/fields.tsx'
import { ErrorNotice, Failed, Loading } from '../../ui/states.tsx'
import type { Client } from './access-types.ts'
import { type Label, LabelFields } from './labels.tsx'
import { ScopePicker, useScopes } from './scopes.tsx'

/** The form's values. The redirect URIs are one text each, with one URI per line. */
export interface ClientDraft {
  name: string
  scopes: string[]
  grants: string[]
  redirectUris: string
  postLogoutRedirectUris: string
  firstParty: boolean
  trusted: boolean
  introspectsOthers: boolean
  labels: Label[]
}

const lines = (text: string) =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean)

/** Returns the initial values of the form, for an existing or a new client. */
export const draftOf = (client?: Client): ClientDraft => ({
  name: client?.name ?? '',
  scopes: client?.scopes ?? [],
  grants: client?.grants ?? ['client_credentials'],
  redirectUris: client?.redirectUris.join('\n') ?? '',
  postLogoutRedirectUris: client?.postLogoutRedirectUris.join('\n') ?? '',
  firstParty: client?.firstParty ?? false,
  trusted: client?.trusted ?? false,
  introspectsOthers: client?.introspectsOthers ?? false,
  labels: Object.entries(client?.labels ?? {}).map(([key, value], id) => ({ id, key, value })),
})

/** Converts the form's values to a request body. */
export function bodyOf({ labels, redirectUris, postLogoutRedirectUris, ...draft }: ClientDraft) {
  const addresses = { redirectUris: lines(redirectUris), postLogoutRedirectUris: lines(postLogoutRedirectUris) }
  const filled = labels.filter(({ key, value }) => key !== '' || value !== '')
  return { ...draft, ...addresses, labels: Object.fromEntries(filled.map(({ key, value }) => [key.trim(), value])) }
}

const grantTypes = [
  ['client_credentials', 'Acts on its own behalf, with its secret (client_credentials)'],
  ['authorization_code', 'Logs users in (authorization_code)'],
  ['refresh_token', 'Keeps users signed in (refresh_token)'],
  ['password', 'Receives the passwords of users (password); deprecated'],
  ['implicit', 'Gets ID tokens without a code (implicit); deprecated'],
] as const

interface ClientFormProps {
  draft: ClientDraft
  onChange: (draft: ClientDraft) => void
  isPublic: boolean
  /** The label of the submit button. */
  action: string
  error: unknown
  isRunning: boolean
  onSubmit: () => void
  /** Additional fields at the top of the form. */
  children?: ReactNode
}

/** The form for the settings of a new or an existing client. */
export function ClientForm(props: ClientFormProps) {
  const { draft, onChange, isPublic, action, error, isRunning, onSubmit, children } = props
  const scopes = useScopes()
  const set = (change: Partial<ClientDraft>) => onChange({ ...draft, ...change })
  if (scopes.data === undefined)
    return scopes.isError ? <Failed error={scopes.error} onRetry={() => void scopes.refetch()} /> : <Loading />
  return (
    <form
      className="card stack"
      onSubmit={(event) => {
        event.preventDefault()
        onSubmit()
      }}
    >
      {children}
      <TextField
        label="Name"
        isRequired
        value={draft.name}
        onChange={(name) => set({ name })}
        hint="Users see it when they sign in"
        error={fieldError(error, 'name')}
      />
      <ScopePicker
        known={scopes.data}
        selected={draft.scopes}
        onChange={(selected) => set({ scopes: selected })}
        error={fieldError(error, 'scopes')}
      />
      <GrantFields draft={draft} isPublic={isPublic} error={error} set={set} />
      <MoreFields draft={draft} isPublic={isPublic} error={error} set={set} />
      <ErrorNotice error={error} />
      <div className="row end">
        <Button look="primary" type="submit" isDisabled={isRunning}>
          {action}
        </Button>
      </div>
    </form>
  )
}

interface PartProps {
  draft: ClientDraft
  isPublic: boolean
  error: unknown
  set: (change: Partial<ClientDraft>) => void
}

/** The grant types, and the redirect URIs that some of them require. */
function GrantFields({ draft, isPublic, error, set }: PartProps) {
  const { grants } = draft
  const toggle = (grant: string, isSelected: boolean) =>
    set({ grants: isSelected ? [...grants, grant] : grants.filter((one) => one !== grant) })
  const redirects = grants.includes('authorization_code') || grants.includes('implicit') || draft.redirectUris !== ''
  return (
    <>
      <fieldset className="stack tight">
        <legend>Grants</legend>
        {fieldError(error, 'grants') && (
          <div className="notice wrong small" role="alert">
            Grants: {fieldError(error, 'grants')}
          </div>
        )}
        {grantTypes
          .filter(([grant]) => !(isPublic && grant === 'client_credentials') || grants.includes(grant))
          .map(([grant, label]) => (
            <CheckField
              key={grant}
              label={label}
              isSelected={grants.includes(grant)}
              onChange={(isSelected) => toggle(grant, isSelected)}
            />
          ))}
      </fieldset>
      {redirects && (
        <>
          <TextField
            label="Redirect URIs"
            rows={3}
            value={draft.redirectUris}
            onChange={(redirectUris) => set({ redirectUris })}
            hint="One per line, compared exactly: where users return after they sign in"
            error={fieldError(error, 'redirectUris')}
          />
          <TextField
            label="Post-logout redirect URIs"
            rows={2}
            value={draft.postLogoutRedirectUris}
            onChange={(postLogoutRedirectUris) => set({ postLogoutRedirectUris })}
            hint="One per line: where users may be sent after they log out"
            error={fieldError(error, 'postLogoutRedirectUris')}
          />
        </>
      )}
    </>
  )
}

function MoreFields({ draft, isPublic, error, set }: PartProps) {
  return (
    <>
      <fieldset className="stack tight">
        <legend>Trust</legend>
        <CheckField
          label="First party"
          hint="Your own application: users are not asked for consent"
          isSelected={draft.firstParty}
          onChange={(firstParty) => set({ firstParty })}
        />
        <CheckField
          label="May receive passwords"
          hint="Needed for the deprecated grant password"
          isSelected={draft.trusted}
          onChange={(trusted) => set({ trusted })}
        />
        {!isPublic && (
          <CheckField
            label="May introspect the tokens of other clients"
            hint="For a gateway, or an API of your own"
            isSelected={draft.introspectsOthers}
            onChange={(introspectsOthers) => set({ introspectsOthers })}
          />
        )}
      </fieldset>
      <LabelFields labels={draft.labels} onChange={(labels) => set({ labels })} error={fieldError(error, 'labels')} />
    </>
  )
}
