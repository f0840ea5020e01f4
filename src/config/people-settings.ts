import { named, optional, text } from './setting.ts'

/** Branding and e-mail settings. */
export const peopleSettings = {
  productName: named(
    'PLINTH_PRODUCT_NAME',
    text('Plinth', 'What the login pages call the service', /^\P{C}{1,60}$/u, '1 to 60 characters'),
  ),
  accentColor: named(
    'PLINTH_ACCENT_COLOR',
    text('#2552c8', 'Colour of the buttons of the login pages', /^#[0-9a-fA-F]{6}$/, 'a colour such as #2552c8'),
  ),
  smtpUrl: named(
    'PLINTH_SMTP_URL',
    optional(text('', 'Mail server that sends invitations', /^smtps?:\/\/[^/\s]+$/, 'smtp://… or smtps://…')),
  ),
  smtpFrom: named(
    'PLINTH_SMTP_FROM',
    optional(text('', 'Whom invitations come from', /^[^@\s<>]+@[^@\s<>]+$/, 'an e-mail address')),
  ),
}
