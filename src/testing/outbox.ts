import type { Invitation } from '../oauth/users/invitations.ts'
import { invitationText, type SendInvitation } from '../oauth/users/mail.ts'
import type { OutboundPost, Sender } from '../webhooks/dispatch/http-client.ts'
import { outcomeOf } from '../webhooks/dispatch/outcome.ts'

/** A call to a webhook that was captured instead of sent. */
export interface CapturedWebhook {
  url: string
  /** The event type, such as `invoice.created`. */
  event: string
  /** The header fields, including the signature, with names in lower case. */
  headers: Readonly<Record<string, string>>
  body: Record<string, unknown>
}

/** A mail that was captured instead of sent. */
export interface CapturedMail {
  to: { name: string; address: string }
  subject: string
  text: string
}

/** Returns the status with which a receiver responds to a captured call. */
export type Receive = (call: CapturedWebhook) => number

/** The captured webhook calls and mails, and the functions that capture them. */
export interface Outbox {
  webhooks: CapturedWebhook[]
  mails: CapturedMail[]
  sender: Sender
  sendInvitation: SendInvitation
}

/** Creates an outbox, which captures webhook calls and mails. */
export function outbox(receive: Receive, now: () => number): Outbox {
  const webhooks: CapturedWebhook[] = []
  const mails: CapturedMail[] = []
  return {
    webhooks,
    mails,
    sender: {
      close: async () => {},
      post: async (request) => {
        const call = captured(request)
        webhooks.push(call)
        const response = { status: receive(call), headers: {}, start: null, failure: null }
        return outcomeOf(response, now(), now())
      },
    },
    sendInvitation: async (invitation: Invitation) => void mails.push(invitationText('Plinth', invitation)),
  }
}

const captured = ({ url, headers, body }: OutboundPost): CapturedWebhook => ({
  url,
  event: headers['webhook-event'] ?? '',
  headers,
  body: JSON.parse(Buffer.from(body).toString()),
})
